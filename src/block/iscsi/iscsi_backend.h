// LUNs of an iSCSI target as images. Calls about LUNs are made by `berth-iscsi call`, a child with
// a deadline (storage_program.h). A device of this node is a loop device over a file of
// `berth io-proxy`, behind which `berth-iscsi serve` writes under a persistent reservation.
//
// The target's administrator makes the LUNs, and the StorageCluster lists those that Berth may use
// (docs/adr/0034, 0039):
//
//            Create: reserved for the volume          Delete: overwritten with zeroes
//   free ─────────────────────────────────▶ taken ─────────────────────────────▶ free
//   (blank, not reserved)                     │  luns.reclaim is Keep, or the reservation is gone
//                                             └────────────▶ kept as it is, and never taken
//
// The name of the image says which LUN it is (lun_image.h). Until the PersistentVolume has that
// name, the reservation at the target says whose the LUN is. So of two claims one gets it, and a
// claim whose operator was killed finds its LUN again.
//
// A fence takes the registration of the node's sessions off: the target refuses everything that
// they send, also what was on its way, and they never register again. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "block/backend.h"

namespace berth::block {

// `settings` are StorageCluster.spec.backend.iscsi. INVALID_ARGUMENT names the member that is
// wrong. The Secret is read by the first call that needs it, so that a volume can be taken off
// although its Secret is gone. `program` is called, and serves behind the I/O proxy.
base::StatusOr<std::unique_ptr<Backend>> OpenIscsiBackend(
    const base::Json& settings, const BackendParts& parts,
    const std::string& program = "berth-iscsi");

}  // namespace berth::block
