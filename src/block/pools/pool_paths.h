// Every path of a pool folder.
//
//   POOL/
//     .berth-reserve          room for deletions on a full disk, if no folder above has one
//                             (platform/files/disk_reserve.h)
//     lock                    held by the process that has the pool open
//     volumes/ID.json         the record of a volume (record.h); written before its image is made
//     volumes/ID.img          its image, a sparse file of exactly the volume's size
//     snapshots/ID.json       the record of a snapshot
//     snapshots/ID.img        its image, which is never mapped and never written again
//     groups/ID.json          the record of a group of snapshots (group_record.h); written before
//                             theirs, and removed after them
//     node/ID.json            where this node has staged and published a volume (written by
//                             csidriver/node_records.h)
//
// ID is a random UUID. The name from the CSI request is not in any path, because it may be any
// Unicode text; the record has it. A file ".NAME.tmp-XXXXXX" is a record that a crash left
// half-written; it is removed at open.
#pragma once

#include <string>
#include <string_view>

#include "block/record.h"

namespace berth::block {

// The names in POOL.
inline constexpr std::string_view kPoolNames[] = {".berth-reserve", "groups",    "lock",
                                                  "node",           "snapshots", "volumes"};

class PoolPaths {
 public:
  explicit PoolPaths(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string Lock() const { return folder_ + "/lock"; }
  std::string Node() const { return folder_ + "/node"; }
  std::string Groups() const { return folder_ + "/groups"; }
  std::string Group(std::string_view id) const { return fmt::format("{}/{}.json", Groups(), id); }
  std::string Folder(Kind kind) const {
    return folder_ + (kind == Kind::kVolume ? "/volumes" : "/snapshots");
  }
  std::string Record(Kind kind, std::string_view id) const {
    return fmt::format("{}/{}.json", Folder(kind), id);
  }
  std::string Image(Kind kind, std::string_view id) const {
    return fmt::format("{}/{}.img", Folder(kind), id);
  }

 private:
  std::string folder_;
};

}  // namespace berth::block
