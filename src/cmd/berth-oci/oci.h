// Stands in for the OCI runtime of containerd (runc, crun), so that containers of a pod get volumes
// that no one mounted on the host:
//
//   create, of a pod that has a plan (base/ipc/crust_call.h)
//       sandbox    tells the handler of it
//       container  gets its volumes' mounts from the handler, as descriptors; puts them under a
//                  private mount in a mount namespace of its own, whose other mounts stay as they
//                  are and go on to take part in propagation; writes config.json anew
//   delete, of a sandbox that the handler knows: tells it afterwards
//   all else   is left to the runtime
//
// Then this program becomes the runtime (exec). A failure ends the create before the runtime
// begins. It is written to the runtime's log, from where containerd reads it, and leaves nothing
// behind, because the mounts go with the process. Nothing is ever mounted on the host.
//
// The file <this program>.json, or else /etc/berth/oci.json, names the runtime and the handler,
// with the members runtime, socket and run. The defaults are "runc" and those of
// base/ipc/crust_call.h.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::oci {

struct Config {
  std::string runtime = "runc";
  std::string socket;
  std::string run_folder;
};

// Reads the first of the files at `paths` that exists.
base::ipc::Result<Config> ReadConfig(const std::vector<std::string>& paths);

// Returns the exit code, or does not return because the runtime has replaced this process.
int Run(const std::vector<std::string>& argv);

}  // namespace berth::oci
