// The containers of a sandbox that has a kernel of its own, in which they run (ADR 47). What a
// container shows of the host is shared with the guest, and its volumes are the guest's own.
//
//   Begin ──▶ (Share, FindVolume, PlugDevice)... ──▶ Create ──▶ Call ...
//
// Not thread-safe, as the sandbox to which it belongs (crust/sandbox.h). Each call may be repeated.
// UNAVAILABLE: the guest has ended.
#pragma once

#include <string>

#include "base/ipc/container_call.h"
#include "base/ipc/message.h"
#include "base/ipc/server.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/containers/guest_config.h"
#include "crust/containers/pod_setup.h"
#include "crust/mount_plan.h"

namespace berth::crust {

// The call that kills a container, if it runs, and deletes it.
inline base::ipc::Message ForceDelete(const std::string& container) {
  return base::ipc::Message()
      .Set(base::ipc::kMethod, std::string(base::ipc::container::kDelete))
      .Set(base::ipc::container::kContainer, container)
      .Set(base::ipc::container::kForce, int64_t{1});
}

class GuestContainers {
 public:
  virtual ~GuestContainers() = default;

  // Starts the guest and prepares it for the pod's containers. UNIMPLEMENTED: the pod needs what a
  // guest does not have.
  virtual base::Status Begin(const PodSetup& setup) = 0;
  // A pidfd of the process whose end is that of the guest.
  virtual base::StatusOr<base::UniqueFd> OpenProcess() = 0;

  // Returns the guest's path of `sub_path` in a volume that is mounted there. NOT_FOUND: the volume
  // is not mounted. PERMISSION_DENIED: see Sandbox::MakeGraft.
  virtual base::StatusOr<std::string> FindVolume(const MountPlan& plan,
                                                 const std::string& sub_path) = 0;
  // Shares a file or folder of the host as `name` of the container, and returns the guest's path.
  virtual base::StatusOr<std::string> Share(const std::string& container, const std::string& name,
                                            const std::string& source) = 0;
  // Gives the guest a block device of the host for the container's device `path`. It may be a
  // device of other containers as well.
  virtual base::StatusOr<GuestDevice> PlugDevice(const std::string& path, const Device& device) = 0;

  // Creates the container by the guest's config, and returns the host's end of its stream
  // (base/ipc/guest_stream.h).
  virtual base::StatusOr<base::UniqueFd> Create(const std::string& container, bool terminal,
                                                const base::Json& config) = 0;
  // Hands on any other call of base/ipc/container_call.h.
  virtual base::StatusOr<base::ipc::Reply> Call(const base::ipc::Message& request) = 0;
};

}  // namespace berth::crust
