#include "node/volumes/crust_deferral.h"

#include <algorithm>
#include <chrono>

#include "api/kinds/runtime_mount.h"
#include "node/volumes/host_mount_pod.h"
#include "rpc/crust_client.h"

namespace berth::node {
namespace {

using base::Error;
using base::EventType;
using base::Json;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr std::chrono::seconds kAsk(10);
constexpr size_t kMostFileSystems = 64;

StatusOr<HandlerOffer> AskHandler(const std::string& socket) {
  ASSIGN_OR_RETURN(const auto client, rpc::CrustClient::New(socket));
  ASSIGN_OR_RETURN(const auto capabilities, client->RuntimeGetCapabilities({}, kAsk));
  ASSIGN_OR_RETURN(const auto file_systems, client->RuntimeGetSupportedFileSystems({}, kAsk));
  if (static_cast<size_t>(file_systems.file_systems_size()) > kMostFileSystems) {
    return Error(StatusCode::kFailedPrecondition, "the runtime handler names {} file systems",
                 file_systems.file_systems_size());
  }
  HandlerOffer offer;
  for (const auto& capability : capabilities.capabilities()) {
    offer.capabilities.push_back(capability.rpc().type());
  }
  for (const std::string& type : file_systems.file_systems()) offer.file_systems.push_back(type);
  return offer;
}

}  // namespace

crust_api::RuntimePublishVolumeRequest MakePublishRequest(const volume::DeferredMount& mount,
                                                          const std::string& target,
                                                          bool read_only) {
  crust_api::RuntimePublishVolumeRequest request;
  request.set_host_volume_id(mount.source);
  request.set_host_target_path(target);
  request.set_file_system(mount.fs_type);
  for (const std::string& option : mount.options) request.add_mount_options(option);
  if (read_only && std::ranges::find(mount.options, "ro") == mount.options.end()) {
    request.add_mount_options("ro");
  }
  if (mount.fs_group.has_value()) {
    request.set_fsgroup_gid(*mount.fs_group);
    request.set_fsgroup_policy(mount.only_on_root_mismatch ? "OnRootMismatch" : "Always");
  }
  request.set_selinux_label(mount.selinux_label);
  request.set_selinux_relabel(mount.selinux_relabel);
  return request;
}

StatusOr<Json> CrustDeferral::ReadRuntimeClass(const api::Pod& pod) {
  const std::string name = pod.String({"spec", "runtimeClassName"});
  StatusOr<Json> found = get_object_(api::kinds::kRuntimeClass, "", name);
  RETURN_IF_ERROR_WITH(found, fmt::format("read RuntimeClass '{}'", name));
  return found;
}

// The volume's StorageClass. Null: it has none, or its class is gone; null allows neither
// runtime-assisted mounts nor secrets.
StatusOr<Json> CrustDeferral::ReadStorageClass(const volume::VolumeSpec& spec) {
  if (spec.pv == nullptr || spec.pv->storage_class_name().empty()) return Json();
  const std::string name = spec.pv->storage_class_name();
  StatusOr<Json> found = get_object_(api::kinds::kStorageClass, "", name);
  if (found.status().code() == StatusCode::kNotFound) return Json();
  RETURN_IF_ERROR_WITH(found, fmt::format("read StorageClass '{}'", name));
  return found;
}

void CrustDeferral::ReportHostMount(const api::Pod& pod, const volume::VolumeSpec& spec,
                                    std::string_view why_not) {
  events_.Record(
      EventTarget(pod), EventType::kNormal, "HostMount",
      fmt::format("volume '{}' is mounted by the host, not by the pod's runtime handler: "
                  "{}",
                  spec.name, why_not));
}

Status CrustDeferral::CheckAccessModes(const api::Pod& pod, const volume::VolumeSpec& spec) {
  if (!MayDefer(pod) || spec.claim == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const Json runtime_class, ReadRuntimeClass(pod));
  const std::string why =
      api::FindReasonAgainstModes(runtime_class, spec.claim->name(), spec.claim->access_modes());
  return why.empty() ? OkStatus() : Error(StatusCode::kFailedPrecondition, "{}", why);
}

StatusOr<HandlerChoice> CrustDeferral::ChooseHandler(const api::Pod& pod,
                                                     const std::vector<std::string>& names,
                                                     const volume::VolumeSpec& spec,
                                                     const CanDefer& can_defer) {
  if (!MayDefer(pod) || spec.pv == nullptr) return HandlerChoice();
  ASSIGN_OR_RETURN(const Json runtime_class, ReadRuntimeClass(pod));
  std::string socket = api::FindHandlerSocket(runtime_class);
  ASSIGN_OR_RETURN(const Json storage_class, ReadStorageClass(spec));
  const bool allowed = api::AllowsRuntimeAssistedMount(storage_class);
  // Neither the RuntimeClass nor the StorageClass asks for runtime-assisted mounts, so there is
  // nothing to decide.
  if (socket.empty() && !allowed) return HandlerChoice();
  if (!allowed) {
    ReportHostMount(pod, spec,
                    fmt::format("StorageClass '{}' does not allow it (allowRuntimeAssistedMount)",
                                spec.pv->storage_class_name()));
    return HandlerChoice();
  }
  if (socket.empty()) {
    ReportHostMount(
        pod, spec,
        fmt::format("RuntimeClass '{}' names no socket of a runtime handler (fsMgmtSocket)",
                    pod.String({"spec", "runtimeClassName"})));
    return HandlerChoice();
  }
  ASSIGN_OR_RETURN(const auto volume, can_defer());
  StatusOr<HandlerOffer> offer = AskHandler(socket);
  RETURN_IF_ERROR_WITH(offer,
                       fmt::format("ask the runtime handler at '{}' for its capabilities", socket));
  std::string why_not = FindReasonForHostMount(pod, NeedsOf(pod, names), volume,
                                               api::AllowsSecrets(storage_class), *offer);
  if (why_not.empty() && options_.before_sandbox &&
      !offer->Has(crust_api::RuntimeCapability::RPC::POD_VOLUMES)) {
    why_not = "the runtime handler takes no volume before the pod has its sandbox (POD_VOLUMES)";
  }
  if (!why_not.empty()) {
    ReportHostMount(pod, spec, why_not);
    return HandlerChoice();
  }
  return HandlerChoice{.socket = std::move(socket), .file_systems = std::move(offer->file_systems)};
}

Status CrustDeferral::ReportChoice(const api::Pod& pod, const std::vector<std::string>& names,
                                   const volume::VolumeSpec& spec, const HandlerChoice& choice,
                                   const volume::DeferredMount* mount) {
  if (mount == nullptr) {
    ReportHostMount(
        pod, spec,
        fmt::format("the driver mounted it, because its file system is none of those that "
                    "the handler mounts ({})",
                    fmt::join(choice.file_systems, ", ")));
    return OkStatus();
  }
  const std::vector<std::string> modes =
      spec.claim != nullptr ? spec.claim->access_modes() : spec.pv->access_modes();
  const bool alone = std::ranges::find(modes, "ReadWriteOncePod") != modes.end();
  if (!alone && !spec.read_only && NeedsOf(pod, names).writes &&
      !AllowsParallelMounts(mount->fs_type)) {
    const std::string why = fmt::format(
        "volume '{}': a pod that writes to {} in a sandbox of its own needs access mode "
        "ReadWriteOncePod; its claim has {}, by which a second pod of this node could mount it "
        "again",
        spec.name, mount->fs_type, fmt::join(modes, ", "));
    if (options_.refuse_shared_writers) return Error(StatusCode::kFailedPrecondition, "{}", why);
    events_.Record(EventTarget(pod), EventType::kWarning, "SandboxMountAccessMode", why);
  }
  events_.Record(EventTarget(pod), EventType::kNormal, "RuntimeAssistedMount",
                 fmt::format("volume '{}': its {} is mounted in the pod's sandbox by the runtime "
                             "handler at '{}'",
                             spec.name, mount->fs_type, choice.socket));
  return OkStatus();
}

}  // namespace berth::node
