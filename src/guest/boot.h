// Prepares the guest before its first program serves: mounts the kernel's file systems and loads
// the modules.
#pragma once

#include <string>

namespace berth::guest {

// Returns "", or the error in words, of which the machine dies.
std::string PrepareSystem();

}  // namespace berth::guest
