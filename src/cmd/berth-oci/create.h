// Prepares the creation of a pod's container, before the runtime creates it.
#pragma once

#include <string>

#include "base/ipc/result.h"
#include "base/unique_fd.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/oci.h"

namespace berth::oci {

// A container that can be created.
struct Prepared {
  // Valid: the handler has created it in a guest already, so no runtime runs here. Of a sandbox, a
  // pidfd of the guest's machine; of a container, the host's end of its stream.
  base::UniqueFd guest;
  std::string sandbox;  // its sandbox; "": it is no pod's, or has no plan
  std::string bundle;   // an absolute path
  bool is_sandbox = false;
};

// Makes the container's deferred volumes ready, if its pod has any. If the container uses some,
// this process is then in a mount namespace of its own, and the bundle's config.json names the
// mounts there. After a failure the caller must not run the runtime.
base::ipc::Result<Prepared> PrepareContainer(const Config& config, const Arguments& arguments);

}  // namespace berth::oci
