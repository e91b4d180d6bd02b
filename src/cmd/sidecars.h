// The Go programs whose work Berth does, and their flags: called by one of their names, Berth takes
// that program's flags with its defaults. Each flag of theirs is either mapped to an option here or
// accepted with a warning that says why it has no effect.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/go_flags.h"

namespace berth::cmd {

struct Sidecar {
  std::string_view name;  // "csi-attacher"
  std::string_view role;  // "attacher"
  bool on_node = false;   // of `berth node` rather than `berth controller`
};

std::span<const Sidecar> AllSidecars();
// By its name, also as a path: "/csi-attacher". nullptr: it is none.
const Sidecar* FindSidecar(std::string_view program);

// The flags of the Go program.
std::vector<GoFlag> FlagsOf(const Sidecar& sidecar);
// The flags of `berth controller` and `berth node`: what the programs have in common, and of each
// the rest, led by its role: --provisioner-worker-threads.
std::vector<GoFlag> ControllerFlags();
std::vector<GoFlag> NodeFlags();

}  // namespace berth::cmd
