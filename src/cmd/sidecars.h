// The Go sidecars that Berth replaces, and their flags. If `berth` runs under the name of a
// sidecar, it accepts the sidecar's flags, with their defaults. Each flag either sets an option or
// is accepted with a warning that says why it has no effect.
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
  bool on_node = false;   // true: a role of `berth node`; false: of `berth controller`
  // $KUBECONFIG counts, and before --kubeconfig. Of the Go programs only csi-provisioner reads it.
  bool reads_kubeconfig_variable = false;
};

std::span<const Sidecar> AllSidecars();
// `program` is a name or a path, such as "/csi-attacher". Returns nullptr if it is not a sidecar.
const Sidecar* FindSidecar(std::string_view program);

// Returns all flags of the Go program.
std::vector<GoFlag> ListFlags(const Sidecar& sidecar);
// The flags of `berth controller` and `berth node`: flags that the sidecars have in common, and the
// other flags of each sidecar. In `berth controller` the other flags have the role as a prefix, as
// in --provisioner-worker-threads.
std::vector<GoFlag> ControllerFlags();
std::vector<GoFlag> NodeFlags();

}  // namespace berth::cmd
