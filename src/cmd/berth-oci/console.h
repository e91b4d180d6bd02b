// The host's terminal of a process that runs in a guest.
#pragma once

#include <string>

#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::oci {

// Makes a terminal, sends its master to the socket at `path` as runc does, and returns the other
// side. It changes no byte, because the terminal in the guest already does.
base::ipc::Result<base::UniqueFd> OpenConsole(const std::string& path);

}  // namespace berth::oci
