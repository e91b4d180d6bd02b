// Groups of snapshots without a file system: what they hold, what is refused, and what a crash
// left.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "block/pools/pool.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

using base::StatusCode;

class PoolGroupsTest : public testing::Test {
 protected:
  PoolGroupsTest() { Reopen(); }

  void Reopen(const PoolOptions& options = {}) {
    pool_.reset();
    auto pool = Pool::Open(folder_ / "pool", options, *mounter_, clock_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  std::string Create(const std::string& name) {
    const auto record = pool_->CreateVolume(
        {.name = name, .size = {.required = kMiB}, .access = AccessType::kBlock});
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? record->id : "";
  }
  base::StatusCode CodeOf(const std::vector<std::string>& volumes) {
    return pool_->CreateGroup("g", volumes).status().code();
  }
  bool IsEmpty(const char* folder) {
    return std::filesystem::is_empty(folder_ / (std::string("pool/") + folder));
  }
  void LeaveGroup(const GroupRecord& group) {
    ASSERT_TRUE(
        platform::WriteDurably<"test.file">(pool_->paths().Group(group.id), Encode(group)).ok());
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  base::FakeClock clock_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PoolGroupsTest, AGroupHasASnapshotOfEachVolumeAndSurvivesReopening) {
  const std::string one = Create("one"), two = Create("two");
  const auto group = pool_->CreateGroup("g", {one, two});
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_EQ(group->members.size(), 2u);
  EXPECT_EQ(group->members[0].volume_id, one);
  Reopen();
  const auto again = pool_->CreateGroup("g", {two, one});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id, group->id);
  EXPECT_EQ(again->members, group->members);
  for (const GroupRecord::Member& member : group->members) {
    const auto snapshot = pool_->Get(Kind::kSnapshot, member.snapshot_id);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ(snapshot->group, group->id);
    EXPECT_EQ(snapshot->source.id, member.volume_id);
    EXPECT_EQ(snapshot->created, group->created);
    EXPECT_EQ(pool_->DeleteSnapshot(member.snapshot_id).code(), StatusCode::kInvalidArgument);
  }
  const auto copy =
      pool_->CreateVolume({.name = "copy",
                           .access = AccessType::kBlock,
                           .source = {Kind::kSnapshot, group->members[0].snapshot_id}});
  EXPECT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(pool_->DeleteGroup(group->id).ok());
  EXPECT_TRUE(pool_->DeleteGroup(group->id).ok());
  EXPECT_EQ(pool_->GetGroup(group->id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(IsEmpty("snapshots"));
  EXPECT_TRUE(IsEmpty("groups"));
}

TEST_F(PoolGroupsTest, WhatCannotBeAGroupIsRefusedAndLeavesNothing) {
  const std::string one = Create("one"), two = Create("two");
  EXPECT_EQ(CodeOf({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf({one, one}), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(std::vector<std::string>(kMaxGroupMembers + 1, one)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf({one, base::NewUuid()}), StatusCode::kNotFound);
  {
    const auto busy = pool_->LockVolume(two);
    ASSERT_TRUE(busy.ok());
    EXPECT_EQ(CodeOf({one, two}), StatusCode::kAborted);
  }
  EXPECT_TRUE(IsEmpty("snapshots"));
  EXPECT_TRUE(IsEmpty("groups"));
  ASSERT_EQ(CodeOf({one}), StatusCode::kOk);
  EXPECT_EQ(CodeOf({one, two}), StatusCode::kAlreadyExists);
}

TEST_F(PoolGroupsTest, AGroupForWhichThereIsNoRoomLeavesNothing) {
  const std::string one = Create("one"), two = Create("two");
  std::ofstream(pool_->paths().Image(Kind::kVolume, two)) << std::string(kMiB, 'x');
  Reopen({.keep_free = int64_t{1} << 60});
  EXPECT_EQ(CodeOf({one, two}), StatusCode::kResourceExhausted);
  EXPECT_TRUE(IsEmpty("snapshots"));
  EXPECT_TRUE(IsEmpty("groups"));
}

TEST_F(PoolGroupsTest, AGroupThatACrashLeftIsRemovedWithItsMembers) {
  for (const State left : {State::kCreating, State::kDeleting}) {
    auto group = pool_->CreateGroup("g", {Create("one"), Create("two")});
    ASSERT_TRUE(group.ok()) << group.status();
    group->state = left;
    LeaveGroup(*group);
    Reopen();
    EXPECT_EQ(pool_->GetGroup(group->id).status().code(), StatusCode::kNotFound);
    EXPECT_TRUE(IsEmpty("snapshots")) << NameOf(left);
    EXPECT_TRUE(IsEmpty("groups")) << NameOf(left);
  }
}

TEST_F(PoolGroupsTest, ADamagedRecordKeepsItsMembers) {
  const auto group = pool_->CreateGroup("g", {Create("one")});
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_TRUE(
      platform::WriteDurably<"test.file">(pool_->paths().Group(group->id), "no record").ok());
  Reopen();
  EXPECT_EQ(pool_->GetGroup(group->id).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(pool_->DeleteGroup(group->id).code(), StatusCode::kDataLoss);
  const std::string& member = group->members[0].snapshot_id;
  EXPECT_EQ(pool_->DeleteSnapshot(member).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(pool_->Get(Kind::kSnapshot, member).ok());
}

TEST_F(PoolGroupsTest, AGroupWithADamagedMemberIsNotDeletedWithoutIt) {
  const auto group = pool_->CreateGroup("g", {Create("one"), Create("two")});
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string& damaged = group->members[1].snapshot_id;
  const std::string& whole = group->members[0].snapshot_id;
  ASSERT_TRUE(platform::WriteDurably<"test.file">(pool_->paths().Record(Kind::kSnapshot, damaged),
                                                  "no record")
                  .ok());
  Reopen();
  EXPECT_EQ(pool_->DeleteGroup(group->id).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(pool_->Get(Kind::kSnapshot, whole).ok());
  Reopen();
  EXPECT_TRUE(pool_->GetGroup(group->id).ok());
  EXPECT_TRUE(std::filesystem::exists(pool_->paths().Image(Kind::kSnapshot, damaged)));
}

TEST_F(PoolGroupsTest, AGroupWhoseRemovalACrashCutOffOnAFullDiskIsRemoved) {
  const auto group = pool_->CreateGroup("g", {Create("one"), Create("two")});
  ASSERT_TRUE(group.ok()) << group.status();
  // The record could not be changed from ready, and one member is gone already.
  const std::string& gone = group->members[0].snapshot_id;
  std::filesystem::remove(pool_->paths().Record(Kind::kSnapshot, gone));
  std::filesystem::remove(pool_->paths().Image(Kind::kSnapshot, gone));
  Reopen();
  EXPECT_EQ(pool_->GetGroup(group->id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(IsEmpty("snapshots"));
  EXPECT_TRUE(IsEmpty("groups"));
}

TEST(GroupRecordTest, ARecordIsReadAsItWasWrittenAndADamagedOneIsNot) {
  GroupRecord group{.id = base::NewUuid(), .name = "g", .state = State::kReady};
  group.members = {{.snapshot_id = base::NewUuid(), .volume_id = base::NewUuid()}};
  const auto read = DecodeGroupRecord(Encode(group));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->id, group.id);
  EXPECT_EQ(read->name, "g");
  EXPECT_EQ(read->state, State::kReady);
  EXPECT_EQ(read->members, group.members);
  const auto refused = [](GroupRecord record) {
    return DecodeGroupRecord(Encode(record)).status().code() == StatusCode::kDataLoss;
  };
  GroupRecord wrong = group;
  wrong.members.clear();
  EXPECT_TRUE(refused(wrong));
  wrong.members = {group.members[0], group.members[0]};
  EXPECT_TRUE(refused(wrong));
  wrong = group;
  wrong.members[0].snapshot_id = "../x";
  EXPECT_TRUE(refused(wrong));
  wrong = group;
  wrong.name.clear();
  EXPECT_TRUE(refused(wrong));
}

}  // namespace
}  // namespace berth::block
