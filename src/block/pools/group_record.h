// What a pool records about a group of snapshots that were taken at one moment, and the folder of
// these records.
//
//                    each member made           removal asked for
//   (none) ─▶ creating ───────────────▶ ready ───────────────────────▶ deleting ─▶ (none)
//                │  crash: members and record                              │ crash: goes on
//                └─ are removed at open                                    └─ at open
//
// Nothing outside the pool sees a member before its group is ready, so a group is never partial.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "block/record.h"

namespace berth::block {

// The most snapshots in a group: each of them may keep a file system frozen while all are copied.
inline constexpr size_t kMaxGroupMembers = 64;

struct GroupRecord {
  struct Member {
    std::string snapshot_id;
    std::string volume_id;
    bool operator==(const Member&) const = default;
  };

  std::string id;    // random UUID
  std::string name;  // from the CSI request
  State state = State::kCreating;
  base::WallTime created;
  std::vector<Member> members;
};

std::string Encode(const GroupRecord& group);
// DATA_LOSS for text that is not a whole record of this version.
base::StatusOr<GroupRecord> DecodeGroupRecord(std::string_view text);

// The records of a pool's groups, in memory and on disk. Not thread-safe: the pool's lock guards
// it. A record that cannot be read stays as it is, and its group can be neither used nor deleted.
class GroupRecords {
 public:
  // Reads the records in `folder`, which exists.
  base::Status Load(const std::string& folder);

  const std::map<std::string, GroupRecord>& all() const { return groups_; }  // by id
  // NOT_FOUND; DATA_LOSS: the record cannot be read.
  base::StatusOr<GroupRecord> Find(const std::string& id) const;
  std::optional<GroupRecord> FindByName(const std::string& name) const;

  void Remember(const GroupRecord& group) { groups_[group.id] = group; }
  void Forget(const std::string& id) { groups_.erase(id); }

 private:
  std::map<std::string, GroupRecord> groups_;
  std::map<std::string, std::string> unreadable_;  // id to reason
};

}  // namespace berth::block
