// What the first program of the guest does before it serves: the kernel's file systems, the modules
// and the control port.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace berth::guest {

// Returns "", or the error in words, of which the machine dies.
std::string PrepareSystem();

// Waits for the port of this name and opens it. Invalid: it did not come.
base::UniqueFd OpenPort(const std::string& name);

}  // namespace berth::guest
