// Writes the files of a content volume so that a reader sees all of the old ones or all of the new
// ones, laid out as the kubelet does:
//
//   <volume>/..2026_01_01_00_00_00.123456789/     the files, in a folder for each version
//   <volume>/..data -> ..2026_01_01_…             renamed into place: the switch
//   <volume>/ca.crt -> ..data/ca.crt              one symlink for each first part of a path
//
// What a crash leaves behind, in whatever state, the next write repairs or removes.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "volume/local/payload.h"

namespace berth::volume {

struct AtomicWriteOptions {
  base::WallTime now;
  // Called with the new files in place and before the switch, to set ownership; may be empty.
  std::function<base::Status()> before_switch;
};

// Brings the volume at `folder`, which exists, to `payload`; writes nothing if it has just that
// content.
base::Status WriteAtomically(const std::string& folder, const Payload& payload,
                             const AtomicWriteOptions& options);

}  // namespace berth::volume
