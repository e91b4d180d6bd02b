// Sandboxes that are virtual machines (machine.h): the guest's own kernel mounts the volumes, and
// this host's kernel never reads their file systems. The handler opens a device only to pass it on.
//
//   publish    open the device, claimed ──▶ plug it in ──▶ guest.mount, with fsGroup
//   unpublish  guest.unmount ──▶ unplug it ──▶ the device is free
//
// The machine starts with the sandbox, or with its first volume if it begins none of its containers
// (vm_containers.h). If the guest ends or hangs, the calls for
// this sandbox fail with UNAVAILABLE or DEADLINE_EXCEEDED, and no other sandbox notices.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "crust/machine/machine.h"
#include "crust/sandbox.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

struct VmFolders {
  std::string records;   // of the machines; made if missing
  std::string machines;  // on a tmpfs: a folder of each machine; made if missing
  std::string pins;      // of the namespaces whose files guests share; made if missing
};

// How long the guest may take for a call about a volume. Each is shorter than the time for which
// the caller of the handler waits, except the walk over files (fsGroup), which has no limit and
// ends if the caller cancels it.
struct VmLimits {
  std::chrono::milliseconds mount{120'000};
  std::chrono::milliseconds unmount{50'000};
  std::chrono::milliseconds stats{30'000};
  std::chrono::milliseconds grow{600'000};
};

// Removes what machines of an earlier boot left. `settings` and `mounter` are borrowed and must
// outlive the result.
base::StatusOr<std::unique_ptr<SandboxKind>> NewVmSandboxes(const MachineSettings& settings,
                                                            platform::Mounter& mounter,
                                                            const VmFolders& folders,
                                                            const VmLimits& limits = {});

}  // namespace berth::crust
