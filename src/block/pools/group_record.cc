#include "block/pools/group_record.h"

#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/log.h"
#include "platform/files/record_files.h"

namespace berth::block {

using base::Error;
using base::StatusCode;

namespace {

constexpr int kVersion = 1;

bool ParseState(std::string_view text, State& state) {
  for (const State known : {State::kCreating, State::kReady, State::kDeleting}) {
    if (NameOf(known) != text) continue;
    state = known;
    return true;
  }
  return false;
}

}  // namespace

std::string Encode(const GroupRecord& group) {
  using std::chrono::nanoseconds;
  base::Json members = base::Json::array();
  for (const GroupRecord::Member& member : group.members) {
    members.push_back({{"snapshot", member.snapshot_id}, {"volume", member.volume_id}});
  }
  const base::Json json = {
      {"version", kVersion},
      {"id", group.id},
      {"name", group.name},
      {"state", NameOf(group.state)},
      {"createdUnixNanos",
       std::chrono::duration_cast<nanoseconds>(group.created.time_since_epoch()).count()},
      {"members", std::move(members)}};
  return base::json::Dump(json) + "\n";
}

base::StatusOr<GroupRecord> DecodeGroupRecord(std::string_view text) {
  namespace json = base::json;
  ASSIGN_OR_RETURN(const base::Json value, platform::ParseRecord(text, kVersion));
  GroupRecord group;
  group.id = json::String(value, {"id"});
  group.name = json::String(value, {"name"});
  group.created = base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(
      std::chrono::nanoseconds(json::Int(value, {"createdUnixNanos"}))));
  std::set<std::string> seen;
  bool whole = true;
  for (const base::Json& member : json::Array(value, {"members"})) {
    group.members.push_back({.snapshot_id = json::String(member, {"snapshot"}),
                             .volume_id = json::String(member, {"volume"})});
    whole &= IsId(group.members.back().snapshot_id) && IsId(group.members.back().volume_id) &&
             seen.insert(group.members.back().snapshot_id).second;
  }
  if (!ParseState(json::String(value, {"state"}), group.state) || !IsId(group.id) ||
      group.name.empty() || !whole || group.members.empty() ||
      group.members.size() > kMaxGroupMembers) {
    return Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return group;
}

base::Status GroupRecords::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(
      const platform::LoadedRecords<GroupRecord> loaded,
      platform::LoadRecords<GroupRecord>(folder, {.on_damage = platform::OnDamage::kLeave},
                                         DecodeGroupRecord, &GroupRecord::id));
  for (const platform::DamagedRecord& damaged : loaded.damaged) {
    unreadable_[damaged.name] = base::Message(damaged.why);
  }
  for (const GroupRecord& group : loaded.records) Remember(group);
  return base::OkStatus();
}

base::StatusOr<GroupRecord> GroupRecords::Find(const std::string& id) const {
  if (const auto why = unreadable_.find(id); why != unreadable_.end()) {
    return Error(StatusCode::kDataLoss, "the record of group {} cannot be read: {}",
                 base::Quote(id), why->second);
  }
  const auto it = groups_.find(id);
  if (it == groups_.end()) {
    return Error(StatusCode::kNotFound, "group {} does not exist", base::Quote(id));
  }
  return it->second;
}

std::optional<GroupRecord> GroupRecords::FindByName(const std::string& name) const {
  const auto it = std::find_if(groups_.begin(), groups_.end(),
                               [&](const auto& entry) { return entry.second.name == name; });
  if (it == groups_.end()) return std::nullopt;
  return it->second;
}

}  // namespace berth::block
