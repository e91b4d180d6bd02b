// The process of virtiofsd that shares the folder of one sandbox (crust/containers/shared_folder.h)
// with its guest. It outlives this process, ends when QEMU does, and is found by the mark of the
// machine in its environment, which the child processes that it makes have as well.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "platform/processes/daemon.h"

namespace berth::crust {

// A folder that virtiofsd shares with a guest.
struct MachineShare {
  int space = -1;      // the mount namespace in which the folder is. Borrowed
  std::string folder;  // its path there
};

struct SharingOptions {
  std::string program;  // virtiofsd
  std::string socket;   // at which QEMU connects; made anew
  std::string mark;     // as DaemonOptions
  std::string log;
};

// virtiofsd's arguments. Pure.
std::vector<std::string> SharingArguments(const std::string& folder);

// Starts virtiofsd in the namespace of the share. QEMU can connect at once; one connection is
// taken.
base::StatusOr<platform::DaemonId> StartSharing(const SharingOptions& options,
                                                const MachineShare& share);

}  // namespace berth::crust
