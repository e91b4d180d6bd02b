// The part of Pool that takes snapshots of several volumes at one moment (group_record.h).
//
// All images are begun, then all file systems are frozen, copied and thawed, and then all images
// are finished. At most one member may be a volume in use that cannot be frozen (CopyTogether).
// Until the group's record says `ready`, its members count as half-made: a failure, and a crash at
// any of these steps, remove all of them.
#include <algorithm>
#include <set>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "block/pools/pool.h"
#include "platform/files/durable_file.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;

namespace {

std::string GroupKey(std::string_view id) { return fmt::format("group {}", id); }
std::string GroupNameKey(std::string_view name) { return fmt::format("group name {}", name); }

std::set<std::string> VolumesOf(const GroupRecord& group) {
  std::set<std::string> volumes;
  for (const GroupRecord::Member& member : group.members) volumes.insert(member.volume_id);
  return volumes;
}

}  // namespace

base::StatusOr<GroupRecord> Pool::CreateGroup(const std::string& name,
                                              const std::vector<std::string>& volume_ids) {
  const std::set<std::string> wanted(volume_ids.begin(), volume_ids.end());
  if (wanted.empty() || wanted.size() != volume_ids.size() || wanted.size() > kMaxGroupMembers) {
    return Error(StatusCode::kInvalidArgument,
                 "a group has 1 to {} volumes, each of them once; {} are given, {} of them twice",
                 kMaxGroupMembers, volume_ids.size(), volume_ids.size() - wanted.size());
  }
  ASSIGN_OR_RETURN(const auto name_hold, locks_.LockExclusive(GroupNameKey(name)));
  std::optional<GroupRecord> existing;
  {
    base::MutexLock lock(mutex_);
    existing = groups_.FindByName(name);
  }
  if (existing.has_value() && existing->state == State::kReady) {
    if (VolumesOf(*existing) == wanted) return *existing;
    return Error(StatusCode::kAlreadyExists, "group {} exists and is of other volumes",
                 Quote(name));
  }
  if (existing.has_value()) RETURN_IF_ERROR(DeleteGroup(existing->id));

  GroupRecord group{.id = base::NewUuid(), .name = name, .created = clock_.Now()};
  std::vector<base::KeyLocks::Hold> holds;
  std::vector<GroupMember> members;
  for (const std::string& volume_id : volume_ids) {
    ASSIGN_OR_RETURN(holds.emplace_back(), LockVolume(volume_id));
    ASSIGN_OR_RETURN(Record volume, Get(Kind::kVolume, volume_id));
    Record snapshot = SnapshotOf(volume, fmt::format("{}/{}", group.id, volume_id));
    snapshot.group = group.id;
    snapshot.created = group.created;
    group.members.push_back({.snapshot_id = snapshot.id, .volume_id = volume_id});
    members.push_back({.snapshot = std::move(snapshot), .volume = std::move(volume)});
  }
  // One permit is enough, because the members are copied one after the other.
  ASSIGN_OR_RETURN(const base::Semaphore::Permit permit, PermitCopy(members.front().snapshot));
  const base::Status made = RunGroupSteps(group, members);
  if (made.ok()) {
    LOG_INFO("group {} of {} snapshots is made with the name {}", Quote(group.id), members.size(),
             Quote(group.name));
    return group;
  }
  if (const base::Status removed = RemoveGroup(group); !removed.ok()) {
    LOG_ERROR("a group that could not be made is not removed yet: {}", base::ToString(removed));
  }
  return base::Annotate(made, fmt::format("make group {}", Quote(name)));
}

base::Status Pool::RunGroupSteps(GroupRecord& group, std::vector<GroupMember>& members) {
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.before">());
  RETURN_IF_ERROR(WriteGroup(group));
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.recorded">());
  std::vector<PendingCopy> copies;
  for (GroupMember& member : members) {
    RETURN_IF_ERROR(ReserveSpace(member.snapshot));
    ASSIGN_OR_RETURN(member.image, BeginImage(member.snapshot));
    if (member.snapshot.content == Content::kBlank) continue;
    ASSIGN_OR_RETURN(copies.emplace_back(), PrepareCopy(member.image, member.volume));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.begun">());
  RETURN_IF_ERROR(CopyTogether(copies));
  copies.clear();
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.copied">());
  for (GroupMember& member : members) {
    RETURN_IF_ERROR(CompleteImage(member.snapshot, member.image));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.synced">());
  group.state = State::kReady;
  RETURN_IF_ERROR(WriteGroup(group));
  RETURN_IF_ERROR(base::FaultPoint<"block.group.create.after">());
  base::MutexLock lock(mutex_);
  for (const GroupMember& member : members) RememberRecord(member.snapshot);
  return base::OkStatus();
}

base::Status Pool::WriteGroup(const GroupRecord& group) {
  RETURN_IF_ERROR_WITH(
      platform::WriteDurably<"block.record">(paths_.Group(group.id), Encode(group)),
      fmt::format("write the record of group {}", Quote(group.id)));
  base::MutexLock lock(mutex_);
  groups_.Remember(group);
  return base::OkStatus();
}

base::Status Pool::CheckMembersReadable(const GroupRecord& group) const {
  base::MutexLock lock(mutex_);
  const auto& unreadable = shelf(Kind::kSnapshot).unreadable;
  for (const GroupRecord::Member& member : group.members) {
    const auto why = unreadable.find(member.snapshot_id);
    if (why == unreadable.end()) continue;
    return Error(StatusCode::kDataLoss,
                 "the record of its snapshot {} cannot be read, so nothing of it is removed: {}",
                 Quote(member.snapshot_id), why->second);
  }
  return base::OkStatus();
}

// Removes a group in any state, and its members. DATA_LOSS: see CheckMembersReadable.
base::Status Pool::RemoveGroup(GroupRecord group) {
  // Without the group's record nothing would name the image of such a member.
  RETURN_IF_ERROR(CheckMembersReadable(group));
  if (group.state == State::kReady) {
    RETURN_IF_ERROR(base::FaultPoint<"block.group.delete.before">());
    group.state = State::kDeleting;
    const base::Status written = WriteGroup(group);
    // A full pool takes no record, and could otherwise never be emptied (RemoveImageAndRecord).
    if (!written.ok() && written.code() != StatusCode::kResourceExhausted) return written;
    RETURN_IF_ERROR(base::FaultPoint<"block.group.delete.recorded">());
  }
  {
    base::MutexLock lock(mutex_);
    groups_.Remember(group);
  }
  for (const GroupRecord::Member& member : group.members) {
    std::optional<Record> snapshot;
    {
      base::MutexLock lock(mutex_);
      const auto& records = shelf(Kind::kSnapshot).records;
      if (const auto it = records.find(member.snapshot_id); it != records.end()) {
        snapshot = it->second;
      }
    }
    if (snapshot.has_value()) RETURN_IF_ERROR(RemoveImageAndRecord(*snapshot));
  }
  RETURN_IF_ERROR(base::FaultPoint<"block.group.delete.emptied">());
  RETURN_IF_ERROR(platform::RemoveDurably<"block.record">(paths_.Group(group.id)));
  LOG_INFO("group {} with the name {} is deleted", Quote(group.id), Quote(group.name));
  RETURN_IF_ERROR(base::FaultPoint<"block.group.delete.after">());
  base::MutexLock lock(mutex_);
  groups_.Forget(group.id);
  return base::OkStatus();
}

base::StatusOr<GroupRecord> Pool::GetGroup(const std::string& id) const {
  base::MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(GroupRecord group, groups_.Find(id));
  if (group.state == State::kReady) return group;
  return Error(StatusCode::kNotFound, "group {} does not exist", Quote(id));
}

base::Status Pool::DeleteGroup(const std::string& id) {
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(GroupKey(id)));
  base::StatusOr<GroupRecord> group = [&] {
    base::MutexLock lock(mutex_);
    return groups_.Find(id);
  }();
  if (group.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(group.status());
  // All of them are locked first, because a group goes as a whole: a volume may just be made from
  // one of them.
  std::vector<base::KeyLocks::Hold> holds;
  for (const GroupRecord::Member& member : group->members) {
    ASSIGN_OR_RETURN(holds.emplace_back(),
                     locks_.LockExclusive(LockKey(Kind::kSnapshot, member.snapshot_id)));
  }
  return base::Annotate(RemoveGroup(*std::move(group)), fmt::format("remove group {}", Quote(id)));
}

base::Status Pool::CheckDeletedAlone(const std::string& snapshot_id) const {
  base::MutexLock lock(mutex_);
  const auto& records = shelf(Kind::kSnapshot).records;
  const auto it = records.find(snapshot_id);
  if (it == records.end() || it->second.group.empty()) return base::OkStatus();
  // A record that cannot be read protects its members, too.
  if (groups_.Find(it->second.group).status().code() == StatusCode::kNotFound) {
    return base::OkStatus();
  }
  return Error(StatusCode::kInvalidArgument,
               "snapshot {} belongs to group {}, and is deleted only with it", Quote(snapshot_id),
               Quote(it->second.group));
}

void Pool::FinishGroups() {
  std::vector<GroupRecord> unfinished;
  {
    base::MutexLock lock(mutex_);
    const Shelf& snapshots = shelf(Kind::kSnapshot);
    for (const auto& [id, group] : groups_.all()) {
      // On a full disk a removal begins although the record still says ready.
      const bool lacks_one =
          std::ranges::any_of(group.members, [&](const GroupRecord::Member& member) {
            return !snapshots.Contains(member.snapshot_id);
          });
      if (group.state == State::kReady && !lacks_one) continue;
      unfinished.push_back(group);
      if (group.state == State::kReady) unfinished.back().state = State::kDeleting;
    }
  }
  for (const GroupRecord& group : unfinished) {
    LOG_INFO("group {} is removed, because a crash left it {}", Quote(group.id),
             NameOf(group.state));
    base::Status finished = base::FaultPoint<"block.group.resume.before">();
    if (finished.ok()) finished = RemoveGroup(group);
    if (!finished.ok()) {
      LOG_ERROR("group {} was left {} by a crash, and finishing it failed: {}", Quote(group.id),
                NameOf(group.state), base::ToString(finished));
    }
  }
}

}  // namespace berth::block
