// Copies the image of a volume while no pod uses the volume, where the back end cannot copy one
// that is in use. The fence and the back end's lock are checked before and after the copy. If the
// volume may have been written meanwhile, the copy is deleted.
//
// Thread-safe. The caller runs one copy of a name at a time.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/mutex.h"
#include "block/backend.h"
#include "controllers/blockoperator/uses.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class QuietCopies {
 public:
  // `proofs` is borrowed.
  QuietCopies(const Context& context, NodeProofs& proofs);

  // FAILED_PRECONDITION: a pod or a node may use the volume; the message says which.
  base::Status CheckUnused(const api::PersistentVolume& volume, block::Backend& backend);

  // Calls `make`, which makes image or snapshot `name` from the volume's image. What has the name
  // before is deleted first, because an earlier run may have made it while the volume was in use;
  // so nothing may name it yet. FAILED_PRECONDITION: the volume is in use, or was meanwhile; the
  // copy is deleted then. Other errors come from the back end.
  base::StatusOr<block::ImageInfo> Copy(
      const api::PersistentVolume& source, block::Backend& backend, const std::string& name,
      const std::function<base::StatusOr<block::ImageInfo>()>& make);

 private:
  // How often the volume's fence has changed since the first call for the volume.
  int64_t CountUses(const std::string& volume) ABSL_LOCKS_EXCLUDED(mutex_);

  const Uses uses_;
  base::Mutex mutex_;
  // The counts of volumes that were copied, by the volume's name.
  std::map<std::string, int64_t> seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::blockoperator
