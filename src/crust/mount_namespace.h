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

// Makes the folder of pins and makes it a private mount, because a namespace that is bound in a
// shared mount would be bound in every other namespace, too, and would never end.
base::Status PreparePins(platform::Mounter& mounter, const std::string& folder);

// Binds a namespace at `pin`.
base::Status Pin(platform::Mounter& mounter, const base::UniqueFd& space, const std::string& pin);

// Opens the namespace that is bound at `pin`; invalid: there is none.
base::UniqueFd OpenPin(const std::string& pin);

// Removes the pin. All mounts in the namespace end once nobody else has it open. Idempotent.
base::Status Unpin(platform::Mounter& mounter, const std::string& pin);

// Removes the files in the folder that have no namespace bound to them. An earlier boot or a crash
// left them.
base::Status RemoveEmptyPins(const std::string& folder);

}  // namespace berth::crust
