// What the first program of the guest does before it serves: the kernel's file systems and the
// modules.
#pragma once

#include <string>

namespace berth::guest {

// Returns "", or the error in words, of which the machine dies.
std::string PrepareSystem();

}  // namespace berth::guest
