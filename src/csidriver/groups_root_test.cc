// Groups of snapshots through the socket: of volumes in use, with and without reflinks.
#include <thread>

#include "csidriver/driver_fixture.h"

namespace berth::csidriver {
namespace {

class GroupsTest : public DriverFixture {
 protected:
  using DriverFixture::DriverFixture;

  base::StatusOr<csi::v1::VolumeGroupSnapshot> Group(const std::string& name,
                                                     const std::vector<std::string>& volumes) {
    csi::v1::CreateVolumeGroupSnapshotRequest request;
    request.set_name(name);
    request.mutable_source_volume_ids()->Add(volumes.begin(), volumes.end());
    ASSIGN_OR_RETURN(const auto response, client_->CreateVolumeGroupSnapshot(request, kTimeout));
    return response.group_snapshot();
  }
  base::Status DeleteGroup(const csi::v1::VolumeGroupSnapshot& group, bool all = true) {
    csi::v1::DeleteVolumeGroupSnapshotRequest request;
    request.set_group_snapshot_id(group.group_snapshot_id());
    for (const auto& snapshot : group.snapshots()) {
      request.add_snapshot_ids(snapshot.snapshot_id());
      if (!all) break;
    }
    return client_->DeleteVolumeGroupSnapshot(request, kTimeout).status();
  }
  std::string Restore(const std::string& name, const csi::v1::Snapshot& snapshot,
                      const VolumeCapability& capability) {
    csi::v1::CreateVolumeRequest request = CreateRequest(name, capability, 0);
    request.clear_capacity_range();
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(
        snapshot.snapshot_id());
    const auto volume = TryCreate(request);
    EXPECT_TRUE(volume.ok()) << volume.status();
    return volume.ok() ? volume->volume_id() : "";
  }

  // A program writes a number to the one volume and then to the other, each time synced. Whatever
  // moment the group shows, the first has the second's number or the next one.
  void TakeOfVolumesInUse(const std::string& fs_type) {
    const VolumeCapability capability = MountCapability(fs_type);
    const std::string one = Create("one", capability, 320 * kMiB);
    const std::string two = Create("two", capability, 320 * kMiB);
    Bring(one, capability, "one");
    Bring(two, capability, "two");
    Write(Target("one") + "/file", "0");
    Write(Target("two") + "/file", "0");
    base::StatusOr<csi::v1::VolumeGroupSnapshot> group;
    {
      const std::jthread writer([&](const std::stop_token& stop) {
        for (int i = 1; !stop.stop_requested(); ++i) {
          Replace(Target("one"), i);
          Replace(Target("two"), i);
        }
      });
      group = Group("group", {one, two});
    }
    ASSERT_TRUE(group.ok()) << group.status();
    ASSERT_EQ(group->snapshots_size(), 2);
    EXPECT_TRUE(group->ready_to_use());
    EXPECT_EQ(Group("group", {two, one})->group_snapshot_id(), group->group_snapshot_id());
    Write(Target("one") + "/file", "not frozen");
    Write(Target("two") + "/file", "not frozen");

    const std::string first = Restore("first", group->snapshots(0), capability);
    const std::string second = Restore("second", group->snapshots(1), capability);
    Bring(first, capability, "first");
    Bring(second, capability, "second");
    const int ahead = std::stoi(Read(Target("first") + "/file"));
    const int behind = std::stoi(Read(Target("second") + "/file"));
    EXPECT_TRUE(ahead == behind || ahead == behind + 1) << ahead << " and " << behind;

    csi::v1::ListSnapshotsRequest list;
    list.set_source_volume_id(one);
    const auto listed = client_->ListSnapshots(list, kTimeout);
    ASSERT_EQ(listed->entries_size(), 1);
    EXPECT_EQ(listed->entries(0).snapshot().group_snapshot_id(), group->group_snapshot_id());
    csi::v1::DeleteSnapshotRequest alone;
    alone.set_snapshot_id(group->snapshots(0).snapshot_id());
    EXPECT_EQ(client_->DeleteSnapshot(alone, kTimeout).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(DeleteGroup(*group, /*all=*/false).code(), StatusCode::kInvalidArgument);
    Restart();
    EXPECT_TRUE(DeleteGroup(*group).ok());
    EXPECT_TRUE(DeleteGroup(*group).ok());
    EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
    EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/groups"));
    for (const auto& [id, name] : std::vector<std::pair<std::string, std::string>>{
             {one, "one"}, {two, "two"}, {first, "first"}, {second, "second"}}) {
      TakeDown(id, name);
      EXPECT_TRUE(Delete(id).ok());
    }
  }

  // Writes the number to the file, which has the old or the new one at each moment.
  static void Replace(const std::string& folder, int number) {
    Write(folder + "/new", std::to_string(number));
    std::filesystem::rename(folder + "/new", folder + "/file");
    const base::UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_EQ(fsync(fd.get()), 0);
  }
};

class ReflinkGroupsTest : private PoolOn, public GroupsTest {
 protected:
  ReflinkGroupsTest() : PoolOn("xfs", 3072 * kMiB), GroupsTest(disk_.path() + "/pool") {}
};

class PlainGroupsTest : private PoolOn, public GroupsTest {
 protected:
  PlainGroupsTest() : PoolOn("ext4", 3072 * kMiB), GroupsTest(disk_.path() + "/pool") {}
};

TEST_F(PlainGroupsTest, OfExt4InUse) { TakeOfVolumesInUse("ext4"); }
TEST_F(PlainGroupsTest, OfXfsInUse) { TakeOfVolumesInUse("xfs"); }
TEST_F(ReflinkGroupsTest, OfExt4InUse) { TakeOfVolumesInUse("ext4"); }
TEST_F(ReflinkGroupsTest, OfXfsInUse) { TakeOfVolumesInUse("xfs"); }

TEST_F(PlainGroupsTest, OneMemberThatCannotBeCopiedLeavesNoSnapshotAndNothingFrozen) {
  const VolumeCapability files = MountCapability("ext4");
  const std::string one = Create("one", files, 64 * kMiB);
  const std::string raw = Create("raw", BlockCapability(), 8 * kMiB);
  Bring(one, files, "one");
  Bring(raw, BlockCapability(), "raw");
  EXPECT_EQ(Group("group", {one, raw}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/groups"));
  Write(Target("one") + "/file", "not frozen");
  TakeDown(raw, "raw");
  const auto group = Group("group", {one, raw});
  EXPECT_TRUE(group.ok()) << group.status();
  TakeDown(one, "one");
}

TEST_F(ReflinkGroupsTest, TwoRawVolumesInUseAreNotTakenAtTwoMoments) {
  const VolumeCapability files = MountCapability("ext4");
  const std::string mounted = Create("mounted", files, 64 * kMiB);
  const std::string one = Create("one", BlockCapability(), 8 * kMiB);
  const std::string two = Create("two", BlockCapability(), 8 * kMiB);
  Bring(mounted, files, "mounted");
  Bring(one, BlockCapability(), "one");
  Bring(two, BlockCapability(), "two");
  EXPECT_EQ(Group("group", {one, two}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/groups"));
  // The only one that can change is copied while the other one is frozen.
  const auto group = Group("group", {mounted, one});
  EXPECT_TRUE(group.ok()) << group.status();
  TakeDown(two, "two");
  const auto all = Group("all", {mounted, one, two});
  EXPECT_TRUE(all.ok()) << all.status();
  TakeDown(one, "one");
  TakeDown(mounted, "mounted");
}

TEST_F(PlainGroupsTest, WhatTheSpecificationRefuses) {
  const auto code = [](const auto& result) { return result.status().code(); };
  csi::v1::GetVolumeGroupSnapshotRequest get;
  EXPECT_EQ(code(client_->GetVolumeGroupSnapshot(get, kTimeout)), StatusCode::kInvalidArgument);
  get.set_group_snapshot_id("nowhere");
  EXPECT_EQ(code(client_->GetVolumeGroupSnapshot(get, kTimeout)), StatusCode::kNotFound);
  csi::v1::DeleteVolumeGroupSnapshotRequest remove;
  EXPECT_EQ(code(client_->DeleteVolumeGroupSnapshot(remove, kTimeout)),
            StatusCode::kInvalidArgument);
  remove.set_group_snapshot_id("nowhere");
  EXPECT_EQ(code(client_->DeleteVolumeGroupSnapshot(remove, kTimeout)), StatusCode::kOk);
  EXPECT_EQ(code(Group("", {base::NewUuid()})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Group("group", {})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Group("group", {base::NewUuid()})), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::csidriver
