// containerd calls this program in place of its OCI runtime (runc, crun), so that containers of a
// pod get volumes that are not mounted on the host:
//
//   create, of a pod that has a plan (base/ipc/crust_call.h)
//       sandbox    reports the sandbox to the handler
//       container  gets its volumes' mounts from the handler, as descriptors; puts them under a
//                  private mount in a mount namespace of its own, whose other mounts stay as they
//                  are and still take part in propagation; writes a new config.json
//   delete, of a sandbox that the handler knows: reports the end to the handler afterwards
//   create, of a sandbox that is a virtual machine, and of its containers
//       leaves a stand-in (stand_in.h) for the process in the guest, and runs no runtime; so do the
//       other calls about such a container (guest_commands.h)
//   create, of a pod without a plan; other calls
//       are left to the runtime. A pod's container is refused if even the folder of plans is
//       missing
//
// Then this program becomes the runtime (exec). A failure ends the create before the runtime
// starts. It is written to the runtime's log, because containerd reads the error there. It leaves
// no mounts, because they end with the process. Nothing is ever mounted on the host.
//
// The file <this program>.json, or else /etc/berth/oci.json, names the runtime and the handler,
// with the members runtime, socket, run, and pods: "all" if the handler is asked about pods without
// a plan, too. The defaults are "runc" and those of base/ipc/crust_call.h.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::oci {

struct Config {
  std::string runtime = "runc";
  std::string socket;
  std::string run_folder;
  // Whether the handler is asked about all pods, and not only about those with a plan. Sandboxes
  // that are virtual machines need it.
  bool all_pods = false;
};

// Reads the first file of `paths` that exists. Without any, all members have their defaults.
base::ipc::Result<Config> ReadConfig(const std::vector<std::string>& paths);

// Handles one call of containerd. Returns the exit code, or does not return because the runtime has
// replaced this process.
int RunWrapper(const std::vector<std::string>& argv);

}  // namespace berth::oci
