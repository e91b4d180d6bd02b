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

// With which codes a Go program ends that does not start. It ends with 2 if its flags are not
// well-formed; the other codes depend on the program, which ends by klog.Fatal (255) or by os.Exit.
struct StartExitCodes {
  int refused = 1;      // a value is refused once all flags are read, such as an unknown gate
  int not_started = 1;  // there is no kubeconfig and no cluster around it, or another reason
  int no_endpoint = 1;  // the HTTP address cannot be served
};

struct Sidecar {
  std::string_view name;  // "csi-attacher"
  std::string_view role;  // "attacher"
  bool on_node = false;   // true: a role of `berth node`; false: of `berth controller`
  // $KUBECONFIG counts, and before --kubeconfig. Of the Go programs only csi-provisioner reads it.
  bool reads_kubeconfig_variable = false;
  StartExitCodes exit_codes = {};
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
