// Images of a Ceph pool (RBD). Image calls are made by `berth-rbd call`, a child with a deadline,
// so that no thread of this process hangs in librbd (storage_program.h). A device of this node
// comes from the kernel's RBD client, or from a loop device over a file of `berth io-proxy`, behind
// which `berth-rbd serve` writes.
//
// Whoever writes has the exclusive lock of the image, and took it before its device appeared. Ceph
// keeps that lock with the image, so every node sees it, and it does not lapse by itself. So an
// image without a lock has no writer: a client that has opened it, and not yet asked for the lock,
// gets it only if nobody else has it.
//
// Fence breaks the lock and puts the client on Ceph's blocklist: the storage daemons then refuse
// everything that it sends, also what was on its way (ADR 33). A client is one run of one program,
// so what the node maps later is another client, and is not fenced.
//
// The key is read from its Secret when it is needed, and kept in memory for ten seconds. It is in
// no record, no argument and no message. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "block/backend.h"

namespace berth::block {

// `settings` are StorageCluster.spec.backend.rbd. INVALID_ARGUMENT names the member that is wrong.
// The Secret is read by the first call that needs it, so that a volume can be taken off although
// its Secret is gone. `program` is called, and serves behind the I/O proxy. ExchangeLocks gives
// FAILED_PRECONDITION if it is missing or holds no key.
base::StatusOr<std::unique_ptr<Backend>> OpenRbdBackend(const base::Json& settings,
                                                        const BackendParts& parts,
                                                        const std::string& program = "berth-rbd");

}  // namespace berth::block
