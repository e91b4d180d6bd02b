// Finds what exists of a volume on this node at one moment: its loop device, and the mounts that
// show it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "block/pools/pool.h"
#include "csidriver/node_records.h"
#include "platform/mounts/mounter.h"

namespace berth::csidriver {

enum class Found {
  kNothing,  // no mount there, or the placeholder of a runtime handler
  kOurs,     // a mount of this volume
  kForeign,  // a mount of something else
};

class Presence {
 public:
  // `recorded` is this node's record of the volume; nullopt: there is none.
  static base::StatusOr<Presence> Find(const block::Pool& pool, platform::Mounter& mounter,
                                       const std::string& volume_id,
                                       std::optional<NodeRecord> recorded);

  const std::optional<platform::LoopDevice>& device() const { return device_; }
  const std::optional<NodeRecord>& recorded() const { return recorded_; }

  // The topmost mount at `path`, or nullptr.
  const platform::MountEntry* MountAt(std::string_view path) const {
    return platform::FindMount(table_, path);
  }
  // Whose mount is the topmost one at `path`.
  Found FindAt(std::string_view path) const;

  // Whether the volume is mounted at the recorded staging path, or published.
  bool IsUsed() const;
  // The recorded targets, except the one at `except`, that exist: the volume is mounted there, or,
  // for a deferred target, its folder exists.
  std::vector<PublishedTarget> FindTargets(const platform::TargetPath& except = {}) const;
  // Whether a recorded target that exists is deferred. If one target is deferred, all are.
  bool IsDeferred() const;
  // One of the paths where the volume's file system is mounted; empty: it is not mounted.
  std::string FindMountPoint() const;

 private:
  std::optional<platform::LoopDevice> device_;
  std::optional<NodeRecord> recorded_;
  std::vector<platform::MountEntry> table_;
};

}  // namespace berth::csidriver
