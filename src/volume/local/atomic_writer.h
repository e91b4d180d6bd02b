// Writes the files of a content volume so that a reader sees either all old ones or all new ones.
// The layout is the kubelet's:
//
//   <volume>/..2026_01_01_00_00_00.123456789/     the files, in a folder for each version
//   <volume>/..data -> ..2026_01_01_…             renamed into place: the switch
//   <volume>/ca.crt -> ..data/ca.crt              one symlink for each first part of a path
//
// The next write repairs or removes what a crash left.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "volume/local/payload.h"

namespace berth::volume {

struct AtomicWriteOptions {
  base::WallTime now;
  // Called when the new files are complete and before the switch, to set ownership; may be empty.
  std::function<base::Status()> before_switch;
};

// Makes the content of the volume at `folder`, which exists, equal to `payload`. If the files are
// equal already, no file is written. INVALID_ARGUMENT: as CheckPayloadPath. Other errors come from
// the file system or from `before_switch`.
base::Status WriteAtomically(const std::string& folder, const Payload& payload,
                             const AtomicWriteOptions& options);

}  // namespace berth::volume
