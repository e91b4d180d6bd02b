// Mount namespaces that are bound to a file, a pin (nsfs). They live as long as the binding, even
// without any process, so the next handler finds what the last one began.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

// Call it in a child process. Enters a new mount namespace, a copy of the present one, that can be
// bound to a file in the present one. Returns 0 or an errno.
int EnterNewNamespace();

// Call it in a child process. Opens the root of the mount at `path` with O_PATH, or returns a
// negative errno; -ENOENT: nothing is mounted there.
int OpenMountRoot(const char* path);

// Makes `folder`, which must exist, a private mount. This is needed because a namespace that is
// bound in a shared mount would be bound in every other namespace, too, and would never end.
base::Status PreparePins(platform::Mounter& mounter, const std::string& folder);

// Binds the namespace `space` to the file `pin`, which is made if it is missing.
base::Status PinNamespace(platform::Mounter& mounter, const base::UniqueFd& space,
                          const std::string& pin);

// Opens the namespace that is bound to `pin`; an invalid descriptor: no mount namespace is.
base::UniqueFd OpenPin(const std::string& pin);

// Unbinds the namespace and removes the file. All mounts in the namespace end when no process has
// it open any more. OK if there is no pin.
base::Status UnpinNamespace(platform::Mounter& mounter, const std::string& pin);

// Removes the files in the folder that have no namespace bound to them. An earlier boot or a crash
// left them.
base::Status RemoveEmptyPins(const std::string& folder);

}  // namespace berth::crust
