#include "crust/kata/kata_offer.h"

#include <algorithm>

#include "base/log.h"
#include "crust/kata/direct_volume.h"

namespace berth::crust::kata {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Capability = wire::RuntimeCapability::RPC;

// What some Kata has, if only one that is built by the person who runs it (VOLUME_RESIZE).
constexpr Capability::Type kPossible[] = {
    Capability::FS_GROUP_CHANGE_POLICY_ALWAYS, Capability::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH,
    Capability::VOLUME_STATS, Capability::VOLUME_RESIZE, Capability::POD_VOLUMES};

}  // namespace

std::vector<Capability::Type> ListCapabilities(KataRuntime runtime) {
  if (runtime == KataRuntime::kRust) return {Capability::POD_VOLUMES};
  return {Capability::FS_GROUP_CHANGE_POLICY_ALWAYS,
          Capability::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH, Capability::VOLUME_STATS,
          Capability::POD_VOLUMES};
}

StatusOr<std::vector<Capability::Type>> ParseKataCapabilities(
    const std::vector<std::string>& names) {
  std::vector<Capability::Type> types;
  for (const std::string& name : names) {
    Capability::Type type = Capability::UNKNOWN;
    if (!Capability::Type_Parse(name, &type) ||
        std::ranges::find(kPossible, type) == std::end(kPossible)) {
      return Error(StatusCode::kInvalidArgument, "Kata has no capability {}", Quote(name));
    }
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  }
  return types;
}

StatusOr<KataRuntime> ParseRuntime(std::string_view name) {
  if (name == "go") return KataRuntime::kGo;
  if (name == "rust") return KataRuntime::kRust;
  return Error(StatusCode::kInvalidArgument, "{} is no runtime of Kata: it is 'go' or 'rust'",
               Quote(name));
}

Status CheckKataCanMount(const wire::RuntimePublishVolumeRequest& request, const MountPlan& plan,
                         KataRuntime runtime) {
  const std::string& target = request.host_target_path();
  if (target.size() > DirectVolumes::kLongestTarget) {
    return Error(StatusCode::kFailedPrecondition,
                 "Kata can find no volume whose target path is longer than {} bytes, and {} has {}",
                 DirectVolumes::kLongestTarget, Quote(target), target.size());
  }
  if (!request.selinux_label().empty()) {
    return Error(StatusCode::kFailedPrecondition, "Kata does not label the files of a volume");
  }
  const auto* group = plan.Find<ApplyGroup>();
  if (group == nullptr || plan.read_only()) return base::OkStatus();
  if (runtime == KataRuntime::kRust) {
    return Error(StatusCode::kFailedPrecondition,
                 "the sandbox is run by Kata's Rust runtime, which applies no fsGroup");
  }
  if (group->group == 0) {
    return Error(StatusCode::kFailedPrecondition, "Kata does not apply the fsGroup 0");
  }
  return base::OkStatus();
}

}  // namespace berth::crust::kata
