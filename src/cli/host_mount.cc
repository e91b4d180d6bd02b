#include "cli/host_mount.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "api/kinds/kinds.h"
#include "base/ids.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/wait.h"

namespace berth::cli {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;

StatusOr<std::string> NormalizePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return Error(StatusCode::kInvalidArgument, "path '{}': {}", path, error.message());
  return std::string(base::TrimSlashes(absolute.lexically_normal().native()));
}

// Returns `given` or, if it is empty, the only node or the node with this host's name.
StatusOr<std::string> FindNode(kube::Client& client, const std::string& given) {
  if (!given.empty()) return given;
  ASSIGN_OR_RETURN(const kube::ListResult nodes, client.List(api::kinds::kNode, "", {}));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string names;
  for (const Json& item : nodes.items) {
    const api::Node node{Json(item)};
    if (nodes.items.size() == 1 || node.name() == host) return node.name();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", node.name());
  }
  return Error(StatusCode::kFailedPrecondition,
               "no node has this host's name '{}': name one of these nodes with --node-name: {}",
               host, names);
}

// Makes a name that is always the same for a node and path, so that the API refuses a second mount
// there.
std::string MakeHostMountName(const std::string& node, const std::string& path) {
  return fmt::format("mount-{}", base::Sha256Hex(node + "\n" + path).substr(0, 16));
}

// The time that is left of a timeout which began with this object.
class TimeLeft {
 public:
  explicit TimeLeft(std::chrono::seconds timeout)
      : end_(std::chrono::steady_clock::now() + timeout) {}
  std::chrono::milliseconds Read() const {
    const auto left = end_ - std::chrono::steady_clock::now();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                    std::chrono::milliseconds(0));
  }

 private:
  const std::chrono::steady_clock::time_point end_;
};

// Waits until the object with this uid is gone. DEADLINE_EXCEEDED: `message` says what keeps it, if
// its node agent has said so.
Status WaitUntilUnmounted(kube::Client& client, const api::HostMount& mount,
                          std::chrono::milliseconds timeout, std::stop_token stop,
                          std::string& message) {
  return WaitFor(client, api::kinds::kHostMount, mount.ns(), mount.name(), timeout, stop,
                 [&](const std::optional<api::Object>& now) {
                   if (!now.has_value() || now->uid() != mount.uid()) return true;
                   message = api::HostMount{Json(now->json())}.message();
                   return false;
                 });
}

// Creates `wanted` unless it is there. ALREADY_EXISTS: another claim, or the claim in another mode,
// is mounted there. DEADLINE_EXCEEDED: an object of the same name is still being deleted.
Status CreateHostMount(kube::Client& client, const api::HostMount& wanted, const TimeLeft& left,
                       std::stop_token stop) {
  for (;;) {
    const auto created = client.Create(api::kinds::kHostMount, wanted.ns(), wanted.json());
    if (created.status().code() != StatusCode::kAlreadyExists) return base::AsStatus(created);
    const auto present = kube::Get<api::HostMount>(client, wanted.ns(), wanted.name());
    if (present.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(present);
    if (!present->deleting()) {
      if (present->claim_name() == wanted.claim_name() &&
          present->read_only() == wanted.read_only()) {
        return base::OkStatus();
      }
      return Error(StatusCode::kAlreadyExists, "'{}' is in use: claim '{}' is mounted there",
                   wanted.path(), present->claim_name());
    }
    std::string message;
    const Status gone = WaitUntilUnmounted(client, *present, left.Read(), stop, message);
    if (gone.code() == StatusCode::kDeadlineExceeded) {
      return Error(StatusCode::kDeadlineExceeded, "claim '{}' is still being unmounted at '{}'{}{}",
                   present->claim_name(), wanted.path(), message.empty() ? "" : ": ", message);
    }
    RETURN_IF_ERROR(gone);
  }
}

}  // namespace

Status MountClaim(kube::Client& client, const ApiOptions& api, const MountOptions& options,
                  std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string path, NormalizePath(options.path));
  const TimeLeft left(options.timeout);
  ASSIGN_OR_RETURN(const std::string node, FindNode(client, options.node_name));
  const std::string name = MakeHostMountName(node, path);
  const api::HostMount wanted{Json{{"apiVersion", api::kinds::kHostMount.api_version()},
                                   {"kind", "HostMount"},
                                   {"metadata", {{"name", name}, {"namespace", api.ns}}},
                                   {"spec",
                                    {{"nodeName", node},
                                     {"claimName", options.claim},
                                     {"path", path},
                                     {"readOnly", options.read_only}}}}};
  RETURN_IF_ERROR(CreateHostMount(client, wanted, left, stop));
  std::string message = "no node agent has processed it yet";
  const Status waited = WaitFor(client, api::kinds::kHostMount, api.ns, name, left.Read(), stop,
                                [&](const std::optional<api::Object>& now) {
                                  if (!now.has_value()) return false;
                                  const api::HostMount mount{Json(now->json())};
                                  if (!mount.message().empty()) message = mount.message();
                                  if (mount.deleting()) message = "it is being unmounted";
                                  return mount.phase() == "Mounted" && !mount.deleting();
                                });
  if (waited.code() == StatusCode::kDeadlineExceeded) {
    return Error(StatusCode::kDeadlineExceeded,
                 "claim '{}' is not mounted at '{}' yet: {}. Berth tries again by itself; "
                 "'berth umount {}{}' makes it give up",
                 options.claim, path, message,
                 options.node_name.empty() ? "" : fmt::format("--node-name {} ", node), path);
  }
  RETURN_IF_ERROR(waited);
  Print(fmt::format("claim {} is mounted at {}\n", options.claim, path));
  return base::OkStatus();
}

Status UnmountClaim(kube::Client& client, const UnmountOptions& options, std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string clean, NormalizePath(options.path));
  ASSIGN_OR_RETURN(const std::string node, FindNode(client, options.node_name));
  ASSIGN_OR_RETURN(const kube::ListResult list, client.List(api::kinds::kHostMount, "", {}));
  for (const Json& item : list.items) {
    const api::HostMount mount{Json(item)};
    if (mount.path() != clean || mount.node_name() != node) continue;
    RETURN_IF_ERROR(kube::Delete(client, mount));
    std::string message;
    const Status waited = WaitUntilUnmounted(client, mount, options.timeout, stop, message);
    if (waited.code() == StatusCode::kDeadlineExceeded && !message.empty()) {
      return Error(StatusCode::kDeadlineExceeded, "'{}' is still mounted: {}", clean, message);
    }
    RETURN_IF_ERROR(waited);
    Print(fmt::format("{} is unmounted\n", clean));
    return base::OkStatus();
  }
  return Error(StatusCode::kNotFound, "Berth has mounted nothing at '{}' of node '{}'", clean,
               node);
}

}  // namespace berth::cli
