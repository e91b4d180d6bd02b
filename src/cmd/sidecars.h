// The Go programs whose work Berth does, and their flags. If Berth is called by one of their names,
// it takes that program's flags, with its defaults. Each flag of theirs is either mapped to an
// option here or accepted with a warning that says why it has no effect.
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
// `program` is a name or a path, such as "/csi-attacher". nullptr: it is no sidecar.
const Sidecar* FindSidecar(std::string_view program);

// The flags of the Go program.
std::vector<GoFlag> FlagsOf(const Sidecar& sidecar);
// The flags of `berth controller` and `berth node`: those that the programs have in common, and the
// other flags of each program. For `berth controller` the latter have the role as a prefix, as in
// --provisioner-worker-threads.
std::vector<GoFlag> ControllerFlags();
std::vector<GoFlag> NodeFlags();

}  // namespace berth::cmd
