#include "crust/requests.h"

#include <algorithm>
#include <limits>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "platform/devices/device_file.h"
#include "platform/files/selinux.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Capability = wire::RuntimeCapability::RPC;

constexpr size_t kMaxPathBytes = 4095;
constexpr int kMaxOptions = 128;
constexpr size_t kMaxOptionBytes = 1024;
constexpr size_t kMaxLabelBytes = 4096;

bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

Status CheckOptions(const wire::RuntimePublishVolumeRequest& request) {
  if (request.mount_options_size() > kMaxOptions) {
    return Error(StatusCode::kInvalidArgument,
                 "{} mount options are too many: at most {} are allowed",
                 request.mount_options_size(), kMaxOptions);
  }
  for (const std::string& option : request.mount_options()) {
    // The message does not quote the option, because it may be sensitive.
    if (option.empty() || option.size() > kMaxOptionBytes || !IsPrintable(option)) {
      return Error(StatusCode::kInvalidArgument,
                   "a mount option is empty, longer than {} bytes, or not printable",
                   kMaxOptionBytes);
    }
  }
  if (request.selinux_label().size() > kMaxLabelBytes || !IsPrintable(request.selinux_label())) {
    return Error(StatusCode::kInvalidArgument, "the SELinux label is no label");
  }
  return base::OkStatus();
}

// Returns the step that applies the request's fsGroup; none: the request has no fsGroup.
StatusOr<std::vector<Step>> MakeGroupStep(const wire::RuntimePublishVolumeRequest& request,
                                          const Offer& offer) {
  std::vector<Step> steps;
  if (!request.has_fsgroup_gid()) return steps;
  // The last 32-bit number is not a valid group, because it means "no change" in chown(2).
  if (request.fsgroup_gid() < 0 || request.fsgroup_gid() >= std::numeric_limits<uint32_t>::max()) {
    return Error(StatusCode::kInvalidArgument, "fsGroup {} is no group id", request.fsgroup_gid());
  }
  const std::string& policy = request.fsgroup_policy();
  const bool mismatch = policy == "OnRootMismatch";
  if (!mismatch && !policy.empty() && policy != "Always") {
    return Error(StatusCode::kInvalidArgument, "fsGroup policy {} is unknown", Quote(policy));
  }
  if (!offer.Has(mismatch ? Capability::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH
                          : Capability::FS_GROUP_CHANGE_POLICY_ALWAYS)) {
    return Error(StatusCode::kFailedPrecondition,
                 "this handler does not apply fsGroup with the policy {}",
                 Quote(mismatch ? "OnRootMismatch" : "Always"));
  }
  steps.emplace_back(ApplyGroup{static_cast<gid_t>(request.fsgroup_gid()), mismatch});
  return steps;
}

// Whether `label` looks like USER:ROLE:TYPE[:LEVEL].
bool IsLabel(std::string_view label) {
  for (int part = 0; part < 2; ++part) {
    const size_t colon = label.find(':');
    if (colon == 0 || colon == std::string_view::npos) return false;
    label.remove_prefix(colon + 1);
  }
  return !label.empty() && label.front() != ':';
}

// Returns the step that gives each file the request's label; none: the label is an option of the
// mount, or the kernel has no labels.
StatusOr<std::vector<Step>> MakeRelabelStep(const wire::RuntimePublishVolumeRequest& request,
                                            const Offer& offer) {
  std::vector<Step> steps;
  if (!request.selinux_relabel()) return steps;
  if (!offer.Has(Capability::SELINUX_RELABEL)) {
    return Error(StatusCode::kFailedPrecondition,
                 "this handler does not set the SELinux label of each file");
  }
  const std::string& label = request.selinux_label();
  if (!label.empty()) {
    if (!IsLabel(label)) {
      return Error(StatusCode::kInvalidArgument, "{} is no SELinux label", Quote(label));
    }
    if (offer.selinux) RETURN_IF_ERROR(platform::CheckLabel(label));
  }
  if (offer.selinux) steps.emplace_back(RelabelFiles{label});
  return steps;
}

StatusOr<Device> FindDevice(const std::string& path) {
  if (!path.starts_with('/') || path.size() > kMaxPathBytes || !IsPrintable(path)) {
    return Error(StatusCode::kInvalidArgument, "{} is no path of a block device", Quote(path));
  }
  ASSIGN_OR_RETURN(const auto found, platform::LookAtDevices({path}));
  if (!found.front().present) {
    return Error(StatusCode::kNotFound, "there is no device at {}", Quote(path));
  }
  if (!found.front().block) {
    return Error(StatusCode::kInvalidArgument, "{} is no block device", Quote(path));
  }
  return Device{.source = path, .block = true, .number = found.front().number};
}

}  // namespace

bool Offer::Has(wire::RuntimeCapability::RPC::Type capability) const {
  return std::ranges::find(capabilities, capability) != capabilities.end();
}

wire::RuntimeGetCapabilitiesResponse ListCapabilities(const Offer& offer) {
  wire::RuntimeGetCapabilitiesResponse response;
  for (const auto type : offer.capabilities) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
  return response;
}

wire::RuntimeGetSupportedFileSystemsResponse ListFileSystems(const Offer& offer) {
  wire::RuntimeGetSupportedFileSystemsResponse response;
  for (const auto* list : {&offer.file_systems, &offer.shares}) {
    for (const std::string& type : *list) response.add_file_systems(type);
  }
  return response;
}

Status CheckOptionPath(const std::string& path) {
  if (path.starts_with('/') && path != "/" && PlainPath(path) == path) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument,
               "path {} is not an absolute, normalized path, or is the root folder", Quote(path));
}

Status CheckSandboxId(std::string_view id) {
  if (base::ipc::crust::IsId(id)) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} is no sandbox's id", Quote(id.substr(0, 256)));
}

Status CheckPodUid(const api::PodUid& pod) {
  if (base::ipc::crust::IsId(pod.text())) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} is no pod's UID",
               Quote(pod.text().substr(0, 256)));
}

Status CheckTarget(const platform::TargetPath& target, std::string_view kubelet_folder,
                   const api::PodUid& pod) {
  const std::string_view path = target.text();
  if (path.size() > kMaxPathBytes || !path.starts_with('/') || !IsPrintable(path) ||
      PlainPath(path) != path) {
    return Error(StatusCode::kInvalidArgument, "target path {} is not an absolute, normalized path",
                 Quote(path.substr(0, 512)));
  }
  const std::string own = fmt::format("{}/pods/{}/volumes/", kubelet_folder, pod.text());
  if (!path.starts_with(own) || path.substr(own.size()).find('/') == std::string_view::npos) {
    return Error(StatusCode::kPermissionDenied,
                 "target path {} does not belong to a volume of the sandbox's pod {}", target, pod);
  }
  return base::OkStatus();
}

StatusOr<bool> NamesPod(std::string_view sandbox_id, const api::PodUid& pod, const Offer& offer) {
  if (pod.empty()) return false;
  if (!offer.Has(Capability::POD_VOLUMES)) {
    return Error(StatusCode::kUnimplemented, "this handler does not offer volumes of pods");
  }
  if (!sandbox_id.empty()) {
    return Error(StatusCode::kInvalidArgument, "the request names both a sandbox and a pod");
  }
  RETURN_IF_ERROR(CheckPodUid(pod));
  return true;
}

StatusOr<MountPlan> MakePlan(const wire::RuntimePublishVolumeRequest& request, const Offer& offer) {
  RETURN_IF_ERROR(CheckOptions(request));
  const std::string& type = request.file_system();
  const bool share = std::ranges::find(offer.shares, type) != offer.shares.end();
  if (!share && std::ranges::find(offer.file_systems, type) == offer.file_systems.end()) {
    return Error(StatusCode::kFailedPrecondition, "this handler does not mount {}",
                 Quote(type.substr(0, 64)));
  }
  MountPlan plan;
  if (share) {
    if (request.host_volume_id().empty() || request.host_volume_id().size() > kMaxPathBytes ||
        !IsPrintable(request.host_volume_id())) {
      return Error(StatusCode::kInvalidArgument, "the share has no name");
    }
    plan.device = {.source = request.host_volume_id()};
  } else {
    ASSIGN_OR_RETURN(plan.device, FindDevice(request.host_volume_id()));
    plan.checks.emplace_back(IsDevice{plan.device.number});
  }
  // A volume of a pod has a placeholder at its target path (pods/placeholder.h), which is checked
  // when it is made.
  if (request.pod_uid().empty()) {
    plan.checks.emplace_back(IsNotMountedAt{request.host_target_path()});
  }
  MountFileSystem mount{
      .type = type, .options = {request.mount_options().begin(), request.mount_options().end()}};
  if (const auto utility = offer.utilities.find(type); utility != offer.utilities.end()) {
    mount.utility = utility->second;
  }
  if (offer.selinux && !request.selinux_relabel()) mount.selinux_label = request.selinux_label();
  plan.steps.emplace_back(std::move(mount));
  ASSIGN_OR_RETURN(std::vector<Step> group, MakeGroupStep(request, offer));
  std::ranges::move(group, std::back_inserter(plan.steps));
  ASSIGN_OR_RETURN(std::vector<Step> relabel, MakeRelabelStep(request, offer));
  std::ranges::move(relabel, std::back_inserter(plan.steps));
  plan.steps.emplace_back(PlaceInSandbox{"v0"});
  return plan;
}

bool IsSame(const MountPlan& plan, const MountPlan& other) {
  // nullptr: the plan has no such step.
  const auto same = [](const auto* one, const auto* two, auto equal) {
    return one == nullptr || two == nullptr ? one == two : equal(*one, *two);
  };
  const auto same_mount = [](const MountFileSystem& one, const MountFileSystem& two) {
    return one.type == two.type && one.options == two.options &&
           one.selinux_label == two.selinux_label;
  };
  const bool same_device = plan.device.block
                               ? other.device.block && plan.device.number == other.device.number
                               : plan.device == other.device;
  return same_device &&
         same(plan.Find<MountFileSystem>(), other.Find<MountFileSystem>(), same_mount) &&
         same(plan.Find<ApplyGroup>(), other.Find<ApplyGroup>(), std::equal_to<>()) &&
         same(plan.Find<RelabelFiles>(), other.Find<RelabelFiles>(), std::equal_to<>());
}

}  // namespace berth::crust
