// Checks requests that come over the handler's sockets before any work is done: sandbox ids, target
// paths, devices and options. No value is trusted before its check.
//
// The functions are pure, except MakePlan, which examines the device in a child process with a
// deadline.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "crust/mount_plan.h"
#include "crust/plain_path.h"
#include "proto/crust.pb.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;

// The part of the API (proto/crust.proto) that a handler offers.
struct Offer {
  std::vector<wire::RuntimeCapability::RPC::Type> capabilities;
  std::vector<std::string> file_systems;         // of block devices
  std::vector<std::string> shares;               // file systems whose source is no device
  std::map<std::string, std::string> utilities;  // programs for shares that the kernel cannot mount
  bool Has(wire::RuntimeCapability::RPC::Type capability) const;
};

// INVALID_ARGUMENT: no CRI runtime gives such an id.
base::Status CheckSandboxId(std::string_view id);
base::Status CheckPodUid(std::string_view uid);

// Checks that `target` is a volume's path in the pod's folder below `kubelet_folder`, absolute and
// normalized. INVALID_ARGUMENT: it is not normalized. PERMISSION_DENIED: it is elsewhere, or
// belongs to another pod.
base::Status CheckTarget(std::string_view target, std::string_view kubelet_folder,
                         std::string_view pod_uid);

// Checks a publish against the offer and makes its plan. `name` is the volume's name in the
// sandbox. INVALID_ARGUMENT; FAILED_PRECONDITION: it needs something that is not offered;
// NOT_FOUND: there is no such device.
base::StatusOr<MountPlan> MakePlan(const wire::RuntimePublishVolumeRequest& request,
                                   const Offer& offer, std::string name);

// Whether `other` is the plan of the same publish as `plan`. The volume's name, the device's path
// and the mount utility are not compared.
bool IsSame(const MountPlan& plan, const MountPlan& other);

}  // namespace berth::crust
