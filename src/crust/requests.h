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

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crust/mount_plan.h"
#include "crust/plain_path.h"
#include "platform/mounts/mount_paths.h"
#include "proto/crust.pb.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;

// The part of the API (proto/crust.proto) that a handler offers.
struct Offer {
  std::vector<wire::RuntimeCapability::RPC::Type> capabilities;
  std::vector<std::string> file_systems;  // of block devices
  std::vector<std::string> shares;        // file systems whose source is no device
  // By the type of a share that the kernel cannot mount: the program that mounts it.
  std::map<std::string, std::string> utilities;
  // The kernel that mounts the volumes has SELinux. Otherwise labels mean nothing to it.
  bool selinux = false;
  bool Has(wire::RuntimeCapability::RPC::Type capability) const;
};
// The answers to RuntimeGetCapabilities and RuntimeGetSupportedFileSystems.
wire::RuntimeGetCapabilitiesResponse ListCapabilities(const Offer& offer);
wire::RuntimeGetSupportedFileSystemsResponse ListFileSystems(const Offer& offer);

// Checks the path of a socket or folder that an option names. INVALID_ARGUMENT: it is not absolute
// and normalized, or it is the root folder.
base::Status CheckOptionPath(const std::string& path);

// INVALID_ARGUMENT: the id cannot be a sandbox's id from a CRI runtime (base/ipc/crust_call.h,
// IsId).
base::Status CheckSandboxId(std::string_view id);
// INVALID_ARGUMENT: the UID cannot be a part of a path.
base::Status CheckPodUid(const api::PodUid& pod);

// Checks that `target` is an absolute and normalized path of a volume of the pod:
// <kubelet_folder>/pods/<pod>/volumes/<plugin>/<name>... INVALID_ARGUMENT: it is not absolute
// and normalized. PERMISSION_DENIED: it is elsewhere, or belongs to another pod.
base::Status CheckTarget(const platform::TargetPath& target, std::string_view kubelet_folder,
                         const api::PodUid& pod);

// Whether a request names a pod in place of a sandbox. INVALID_ARGUMENT: it names both, or the UID
// is wrong. UNIMPLEMENTED: it names a pod, but this is not offered.
base::StatusOr<bool> NamesPod(std::string_view sandbox_id, const api::PodUid& pod,
                              const Offer& offer);

// Checks a publish against the offer and makes its plan. The volume has any name in it, because
// only a sandbox's record shows which names are free (VolumeSteps). INVALID_ARGUMENT: a field of
// the request is wrong. FAILED_PRECONDITION: the request needs something that is not offered.
// NOT_FOUND: the device does not exist.
//
// If the files get a label that the request does not name, it is empty in the plan.
base::StatusOr<MountPlan> MakePlan(const wire::RuntimePublishVolumeRequest& request,
                                   const Offer& offer);

// Whether `other` is the plan of the same publish as `plan`. The volume's name, the device's path
// and the mount utility are not compared.
bool IsSame(const MountPlan& plan, const MountPlan& other);

}  // namespace berth::crust
