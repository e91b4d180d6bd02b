// Exports of an NBD server, each named as its image, as devices of this node: by the kernel's
// client, or by `berth io-proxy` as a file under a loop device.
//
// The server may hold no lock of what it serves (nbdkit holds none), so that only a lock that is
// seen says anything: HasLock is UNIMPLEMENTED without one.
#pragma once

#include <memory>
#include <string>

#include "block/backend.h"

namespace berth::block {

enum class NbdAccess { kAuto, kKernel, kProxy };

struct NbdOptions {
  std::string server;  // "HOST:PORT" or "unix:/PATH"
  std::string folder;  // where its images are; empty: not reached from here
  NbdAccess access = NbdAccess::kAuto;
  std::chrono::seconds timeout{30};  // of a request to the server
};

// `parts` as in OpenBackend.
std::unique_ptr<Backend> NewNbdBackend(const NbdOptions& options, const BackendParts& parts);

}  // namespace berth::block
