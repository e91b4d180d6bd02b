#include "cmd/berth-oci/create.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ipc/connection.h"
#include "base/ipc/container_call.h"
#include "base/ipc/crust_call.h"
#include "base/unique_fd.h"
#include "cmd/berth-oci/annotations.h"
#include "cmd/berth-oci/files.h"
#include "cmd/berth-oci/handler_call.h"

namespace berth::oci {

namespace ipc = base::ipc;
namespace crust = base::ipc::crust;
using base::UniqueFd;
using ipc::Failure;
using ipc::Problem;
using ipc::Result;

namespace {

// The bundle's files. containerd's config is kept beside the config that names the mounts, so that
// a create after an interrupted one starts with containerd's config.
struct Bundle {
  explicit Bundle(std::string folder)
      : folder(std::move(folder)),
        config(this->folder + "/config.json"),
        original(this->folder + "/config.json.berth-original"),
        fresh(this->folder + "/config.json.berth-new") {}
  // The path of containerd's config: that of the copy, if there is one.
  const std::string& given() const {
    return access(original.c_str(), F_OK) == 0 ? original : config;
  }
  std::string folder, config, original, fresh;
};

struct Mounts {
  std::vector<UniqueFd> descriptors;
  ipc::Strings kinds;
  UniqueFd guest;  // valid: the container runs in a guest
};

bool IsOfGuest(const ipc::Message& reply) {
  return reply.FindNumber(crust::kGuest).value_or(0) != 0;
}

Failure Broken(std::string text) { return {Problem::kBroken, std::move(text)}; }

ipc::Message MakeCreateMessage(const std::string& kind, const std::string& sandbox,
                               const std::string& uid, const std::string& bundle,
                               const Arguments& arguments) {
  return ipc::Message()
      .Set(ipc::kMethod, std::string(crust::kCreate))
      .Set(crust::kKind, kind)
      .Set(crust::kSandbox, sandbox)
      .Set(crust::kPodUid, uid)
      .Set(crust::kBundle, bundle)
      .Set(ipc::container::kContainer, arguments.id)
      .Set(ipc::container::kTerminal, arguments.console_socket.empty() ? 0 : 1);
}

// Gets the mounts of the container's volumes from the handler, which also writes the new config.
// Without deferred volumes there are no mounts and no new config.
Result<Mounts> RequestMounts(const Config& config, const ipc::Message& base, const Bundle& bundle) {
  const UniqueFd given(open(bundle.given().c_str(), O_RDONLY | O_CLOEXEC));
  if (!given.valid()) return ipc::SystemFailure("open '" + bundle.given() + "'", errno);
  const UniqueFd fresh(
      open(bundle.fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fresh.valid()) return ipc::SystemFailure("make '" + bundle.fresh + "'", errno);
  const int descriptors[] = {given.get(), fresh.get()};
  Mounts mounts;
  while (true) {
    ipc::Message request = base;
    request.Set(crust::kFrom, static_cast<int64_t>(mounts.descriptors.size()));
    std::vector<UniqueFd> received;
    Result<ipc::Message> reply = CallHandler(config, request, descriptors, &received);
    if (!reply.ok()) return reply.failure();
    if (IsOfGuest(*reply)) {
      if (received.size() != 1) return Broken("Berth's CRUST handler gave no stream of the guest");
      mounts.guest = std::move(received.front());
      return mounts;
    }
    const auto count = reply->FindNumber(crust::kCount);
    const ipc::Strings* kinds = reply->FindList(crust::kKinds);
    if (!count || *count < 0 || kinds == nullptr || kinds->size() != received.size() ||
        mounts.descriptors.size() + received.size() > static_cast<size_t>(*count)) {
      return Broken("Berth's CRUST handler gave an invalid answer");
    }
    for (UniqueFd& mount : received) mounts.descriptors.push_back(std::move(mount));
    mounts.kinds.insert(mounts.kinds.end(), kinds->begin(), kinds->end());
    if (mounts.descriptors.size() == static_cast<size_t>(*count)) return mounts;
    if (received.empty()) return Broken("Berth's CRUST handler gave fewer mounts than it said");
  }
}

// Enters a new mount namespace, which is a copy of the host's, and attaches the mounts in it.
Failure GraftMounts(const Config& config, const Mounts& mounts) {
  const std::string folder = crust::GraftFolder(config.run_folder);
  if (unshare(CLONE_NEWNS) != 0) return ipc::SystemFailure("unshare the mount namespace", errno);
  // Makes only this mount private. The others stay shared with the host, because otherwise later
  // mounts of the host would not appear in containers. The call fails if the folder is not a mount
  // point. That is intended, because mounts in the folder could then appear on the host.
  if (mount(nullptr, folder.c_str(), nullptr, MS_PRIVATE, nullptr) != 0) {
    return ipc::SystemFailure("make '" + folder + "' private (Berth's CRUST handler mounts it)",
                              errno);
  }
  if (mount("berth", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            "size=1m,mode=0700") != 0) {
    return ipc::SystemFailure("mount a tmpfs at '" + folder + "'", errno);
  }
  for (size_t i = 0; i < mounts.descriptors.size(); ++i) {
    const std::string point = crust::GraftPoint(config.run_folder, i);
    const bool made =
        mounts.kinds[i] == "f"
            ? UniqueFd(open(point.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600)).valid()
            : mkdir(point.c_str(), 0700) == 0;
    if (!made) return ipc::SystemFailure("make '" + point + "'", errno);
    if (move_mount(mounts.descriptors[i].get(), "", AT_FDCWD, point.c_str(),
                   MOVE_MOUNT_F_EMPTY_PATH) != 0) {
      return ipc::SystemFailure("put a volume at '" + point + "'", errno);
    }
  }
  return ipc::Ok();
}

Failure ReplaceConfig(const Bundle& bundle) {
  if (link(bundle.config.c_str(), bundle.original.c_str()) != 0 && errno != EEXIST) {
    return ipc::SystemFailure("keep '" + bundle.config + "'", errno);
  }
  if (rename(bundle.fresh.c_str(), bundle.config.c_str()) != 0) {
    return ipc::SystemFailure("replace '" + bundle.config + "'", errno);
  }
  return ipc::Ok();
}

// Returns the bundle's folder as an absolute path, because it is sent to the handler.
std::string ResolveBundleFolder(const Arguments& arguments) {
  char path[PATH_MAX];
  const std::string& given = arguments.bundle;
  return realpath(given.empty() ? "." : given.c_str(), path) == nullptr ? given : path;
}

std::string FindAnnotation(const Annotations& annotations, std::string_view name) {
  const auto found = annotations.find(name);
  return found == annotations.end() ? "" : found->second;
}

}  // namespace

Result<Prepared> PrepareContainer(const Config& config, const Arguments& arguments) {
  const Bundle bundle(ResolveBundleFolder(arguments));
  const Result<std::string> text = ReadFile(bundle.given(), crust::kLargestConfig);
  if (!text.ok()) return text.failure();
  const Result<Annotations> annotations = ReadAnnotations(*text);
  if (!annotations.ok()) return annotations.failure();
  const std::string kind = FindAnnotation(*annotations, crust::kKindAnnotation);
  const std::string sandbox = FindAnnotation(*annotations, crust::kSandboxAnnotation);
  const std::string uid = FindAnnotation(*annotations, crust::kPodUidAnnotation);
  if (sandbox.empty() && uid.empty() && kind.empty()) return Prepared();  // not a pod's
  // Without these ids it is unknown whether volumes were deferred.
  if (!crust::IsId(uid) || !crust::IsId(sandbox)) {
    return Broken("the container's annotations name no pod and sandbox ('" +
                  std::string(crust::kPodUidAnnotation) + "')");
  }
  const std::string plan = crust::PlanPath(config.run_folder, uid);
  if (!config.all_pods && access(plan.c_str(), F_OK) != 0) {
    if (errno != ENOENT) return ipc::SystemFailure("look for '" + plan + "'", errno);
    const std::string folder = crust::PlanFolder(config.run_folder);
    if (access(folder.c_str(), F_OK) == 0) return Prepared();
    return Broken(
        "it is unknown whether Berth's CRUST handler mounts this pod's volumes, because "
        "the folder of its plans '" +
        folder +
        "' is missing; the handler makes it when "
        "it starts");
  }
  const ipc::Message message = MakeCreateMessage(kind, sandbox, uid, bundle.folder, arguments);
  Prepared prepared = {
      .sandbox = sandbox, .bundle = bundle.folder, .is_sandbox = kind == "sandbox"};
  if (prepared.is_sandbox) {
    std::vector<UniqueFd> received;
    const Result<ipc::Message> reply = CallHandler(config, message, {}, &received);
    if (!reply.ok()) return reply.failure();
    if (!IsOfGuest(*reply)) return prepared;
    if (received.size() != 1) return Broken("Berth's CRUST handler gave no process of the guest");
    prepared.guest = std::move(received.front());
    return prepared;
  }
  Result<Mounts> mounts = RequestMounts(config, message, bundle);
  if (!mounts.ok() || mounts->descriptors.empty()) {
    unlink(bundle.fresh.c_str());
    if (!mounts.ok()) return mounts.failure();
    prepared.guest = std::move(mounts->guest);
    return prepared;
  }
  Failure done = GraftMounts(config, *mounts);
  if (done.ok()) done = ReplaceConfig(bundle);
  if (done.ok()) return prepared;
  unlink(bundle.fresh.c_str());
  return done;
}

}  // namespace berth::oci
