// What the handler is asked over its sockets, checked before anything is done: sandbox ids, target
// paths, devices, options. All of it is held for forged until it fits.
//
// Pure, except MakePlan, which looks at the device in a child with a deadline.
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

// What a handler does, of what the API knows (proto/crust.proto).
struct Offer {
  std::vector<wire::RuntimeCapability::RPC::Type> capabilities;
  std::vector<std::string> file_systems;         // of block devices
  std::vector<std::string> shares;               // file systems whose source is no device
  std::map<std::string, std::string> utilities;  // of those shares that the kernel cannot mount
  bool Has(wire::RuntimeCapability::RPC::Type capability) const;
};

// INVALID_ARGUMENT: it is no id that a CRI runtime gives.
base::Status CheckSandboxId(std::string_view id);
base::Status CheckPodUid(std::string_view uid);

// `target` is a volume's path below the pod's own folder in the kubelet's one, absolute and in its
// plainest spelling. INVALID_ARGUMENT; PERMISSION_DENIED: it is elsewhere, or another pod's.
base::Status CheckTarget(std::string_view target, std::string_view kubelet_folder,
                         std::string_view pod_uid);

// The plan for a publish that is checked against the offer. `name` is the volume's in the sandbox.
// INVALID_ARGUMENT; FAILED_PRECONDITION: it wants what is not offered; NOT_FOUND: no such device.
base::StatusOr<MountPlan> MakePlan(const wire::RuntimePublishVolumeRequest& request,
                                   const Offer& offer, std::string name);

// Whether a publish that was done under `plan` is asked for again. The name does not count, nor how
// the device is called and by which utility it is mounted.
bool IsSame(const MountPlan& plan, const MountPlan& other);

}  // namespace berth::crust
