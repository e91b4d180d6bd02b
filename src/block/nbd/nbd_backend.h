// Makes exports of an NBD server devices of this node; an export has the name of its image. The
// device comes from the kernel's NBD client, or from a loop device over a file of `berth io-proxy`.
//
// The server may hold no lock of the files that it serves (nbdkit holds none), so the absence of a
// lock proves nothing: HasLock gives UNIMPLEMENTED if it finds no lock, or if this host cannot
// reach the folder of the images.
#pragma once

#include <memory>
#include <string>

#include "block/backend.h"

namespace berth::block {

// kAuto: kKernel if the kernel has an NBD client now (HasKernelNbd), else kProxy.
enum class NbdAccess { kAuto, kKernel, kProxy };

struct NbdOptions {
  std::string server;  // "HOST:PORT" or "unix:/PATH"
  std::string folder;  // of the server's images; empty: this host cannot reach it
  NbdAccess access = NbdAccess::kAuto;
  std::chrono::seconds timeout{30};  // of a request of the kernel to the server
};

// `parts` is used as in OpenBackend.
std::unique_ptr<Backend> NewNbdBackend(const NbdOptions& options, const BackendParts& parts);

}  // namespace berth::block
