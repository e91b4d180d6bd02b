#include "cli/host_mount.h"

#include <unistd.h>

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

StatusOr<std::string> FindThisNode(kube::Client& client) {
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

}  // namespace

Status MountClaim(kube::Client& client, const ApiOptions& api, const MountOptions& options,
                  std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string path, NormalizePath(options.path));
  std::string node = options.node_name;
  if (node.empty()) {
    ASSIGN_OR_RETURN(node, FindThisNode(client));
  }
  const std::string name = MakeHostMountName(node, path);
  const Json object = {{"apiVersion", api::kinds::kHostMount.api_version()},
                       {"kind", "HostMount"},
                       {"metadata", {{"name", name}, {"namespace", api.ns}}},
                       {"spec",
                        {{"nodeName", node},
                         {"claimName", options.claim},
                         {"path", path},
                         {"readOnly", options.read_only}}}};
  const auto created = client.Create(api::kinds::kHostMount, api.ns, object);
  if (created.status().code() == StatusCode::kAlreadyExists) {
    ASSIGN_OR_RETURN(const auto present, kube::Get<api::HostMount>(client, api.ns, name));
    if (present.claim_name() != options.claim || present.read_only() != options.read_only) {
      return Error(StatusCode::kAlreadyExists, "'{}' is in use: claim '{}' is mounted there", path,
                   present.claim_name());
    }
  } else {
    RETURN_IF_ERROR(created);
  }
  std::string message = "no node agent has processed it yet";
  const Status waited = WaitFor(client, api::kinds::kHostMount, api.ns, name, options.timeout, stop,
                                [&](const std::optional<api::Object>& now) {
                                  if (!now.has_value()) return false;
                                  const api::HostMount mount{Json(now->json())};
                                  if (!mount.message().empty()) message = mount.message();
                                  return mount.phase() == "Mounted";
                                });
  if (waited.code() == StatusCode::kDeadlineExceeded) {
    return Error(StatusCode::kDeadlineExceeded,
                 "claim '{}' is not mounted at '{}' yet: {}. Berth tries again by itself; "
                 "'berth umount {}' makes it give up",
                 options.claim, path, message, path);
  }
  RETURN_IF_ERROR(waited);
  Print(fmt::format("claim {} is mounted at {}\n", options.claim, path));
  return base::OkStatus();
}

Status UnmountClaim(kube::Client& client, const ApiOptions& api, const std::string& path,
                    std::chrono::seconds timeout, std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string clean, NormalizePath(path));
  ASSIGN_OR_RETURN(const kube::ListResult list, client.List(api::kinds::kHostMount, "", {}));
  for (const Json& item : list.items) {
    const api::HostMount mount{Json(item)};
    if (mount.path() != clean) continue;
    RETURN_IF_ERROR(kube::Delete(client, mount));
    std::string message;
    const Status waited = WaitFor(client, api::kinds::kHostMount, mount.ns(), mount.name(), timeout,
                                  stop, [&](const std::optional<api::Object>& now) {
                                    if (!now.has_value() || now->uid() != mount.uid()) return true;
                                    message = api::HostMount{Json(now->json())}.message();
                                    return false;
                                  });
    if (waited.code() == StatusCode::kDeadlineExceeded && !message.empty()) {
      return Error(StatusCode::kDeadlineExceeded, "'{}' is still mounted: {}", clean, message);
    }
    RETURN_IF_ERROR(waited);
    Print(fmt::format("{} is unmounted\n", clean));
    return base::OkStatus();
  }
  return Error(StatusCode::kNotFound, "Berth has mounted nothing at '{}'", clean);
}

}  // namespace berth::cli
