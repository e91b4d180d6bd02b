// Mount namespaces that live as long as a file that they are bound to, a pin (nsfs), whoever runs:
// what a handler has begun, the next one finds by it.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

// In a child of this process: into a new mount namespace, a copy of its own, that can be bound to a
// file in its own. 0, or an errno.
int EnterNewNamespace();

// In a child: the root of what is mounted at `path`, with O_PATH, or a negative errno; ENOENT where
// nothing is.
int OpenMountRoot(const char* path);

// Makes the folder of pins, a private mount: a namespace bound in a shared one would be bound in
// every other namespace, too, and could not go.
base::Status PreparePins(platform::Mounter& mounter, const std::string& folder);

// Binds a namespace at `pin`.
base::Status Pin(platform::Mounter& mounter, const base::UniqueFd& space, const std::string& pin);

// The namespace that is bound at `pin`; invalid: none is.
base::UniqueFd OpenPin(const std::string& pin);

// Takes the pin away, and with it all that is mounted there, once no one else has it open.
// Idempotent.
base::Status Unpin(platform::Mounter& mounter, const std::string& pin);

// Removes the files in the folder that no namespace is bound to: of another boot, or of a crash.
base::Status RemoveEmptyPins(const std::string& folder);

}  // namespace berth::crust
