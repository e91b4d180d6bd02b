// Snapshots, restores and clones through the socket: with and without reflinks, of volumes in use.
#include "csidriver/driver_fixture.h"
#include "csidriver/fake_sandbox.h"

namespace berth::csidriver {
namespace {

// On the file system of the temporary folder, which may have reflinks or not.
class CopiesTest : public DriverFixture {
 protected:
  using DriverFixture::DriverFixture;

  csi::v1::CreateVolumeRequest RestoreRequest(const std::string& name, const std::string& snapshot,
                                              const VolumeCapability& capability) {
    csi::v1::CreateVolumeRequest request = CreateRequest(name, capability, 0);
    request.clear_capacity_range();
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(snapshot);
    return request;
  }
  csi::v1::CreateVolumeRequest CloneRequest(const std::string& name, const std::string& volume,
                                            const VolumeCapability& capability) {
    csi::v1::CreateVolumeRequest request = CreateRequest(name, capability, 0);
    request.clear_capacity_range();
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(volume);
    return request;
  }
  std::string UuidOf(const std::string& id) {
    const auto found = platform::ProbeSignature(LoopOf(id).path);
    return found.ok() && found->has_value() ? (*found)->uuid : "";
  }

  // A volume that pods use is snapshotted; what is restored and cloned from it is used beside it.
  void SnapshotRestoreClone(const std::string& fs_type) {
    const VolumeCapability capability = MountCapability(fs_type);
    const std::string source = Create("source", capability, 320 * kMiB);
    Bring(source, capability, "source");
    Write(Target("source") + "/file", "before");
    const auto snapshot = Snapshot(source, "snap");
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ(*Snapshot(source, "snap"), *snapshot);
    Write(Target("source") + "/file", "after");

    csi::v1::CreateVolumeRequest request = RestoreRequest("restored", *snapshot, capability);
    request.mutable_capacity_range()->set_required_bytes(640 * kMiB);
    const auto restored = TryCreate(request);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->content_source().snapshot().snapshot_id(), *snapshot);
    EXPECT_EQ(TryCreate(request)->volume_id(), restored->volume_id());
    const auto clone = TryCreate(CloneRequest("clone", source, capability));
    ASSERT_TRUE(clone.ok()) << clone.status();
    EXPECT_EQ(clone->capacity_bytes(), 320 * kMiB);

    Bring(restored->volume_id(), capability, "restored");
    Bring(clone->volume_id(), capability, "clone");
    EXPECT_EQ(Read(Target("restored") + "/file"), "before");
    EXPECT_EQ(Read(Target("clone") + "/file"), "after");
    // The larger restore has its room at once.
    EXPECT_GT(Stats(restored->volume_id(), Target("restored"))->usage(0).total(), 560 * kMiB);
    const std::set<std::string> uuids = {UuidOf(source), UuidOf(restored->volume_id()),
                                         UuidOf(clone->volume_id())};
    EXPECT_EQ(uuids.size(), 3u);
    EXPECT_FALSE(uuids.contains(""));
    // The source is not frozen any more.
    Write(Target("source") + "/file", "later");
    EXPECT_EQ(Read(Target("clone") + "/file"), "after");

    for (const auto& [id, name] :
         std::vector<std::pair<std::string, std::string>>{{source, "source"},
                                                          {restored->volume_id(), "restored"},
                                                          {clone->volume_id(), "clone"}}) {
      TakeDown(id, name);
      EXPECT_TRUE(Delete(id).ok());
    }
    csi::v1::ListSnapshotsRequest list;
    list.set_source_volume_id(source);
    EXPECT_EQ(client_->ListSnapshots(list, kTimeout)->entries_size(), 1);
    list.set_source_volume_id(base::NewUuid());
    EXPECT_EQ(client_->ListSnapshots(list, kTimeout)->entries_size(), 0);
    csi::v1::DeleteSnapshotRequest remove;
    remove.set_snapshot_id(*snapshot);
    EXPECT_TRUE(client_->DeleteSnapshot(remove, kTimeout).ok());
    EXPECT_TRUE(client_->DeleteSnapshot(remove, kTimeout).ok());
    EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  }
};

class ReflinkCopiesTest : private PoolOn, public CopiesTest {
 protected:
  ReflinkCopiesTest() : PoolOn("xfs", 2048 * kMiB), CopiesTest(disk_.path() + "/pool") {}
};

class PlainCopiesTest : private PoolOn, public CopiesTest {
 protected:
  PlainCopiesTest() : PoolOn("ext4", 2048 * kMiB), CopiesTest(disk_.path() + "/pool") {}
};

TEST_F(PlainCopiesTest, OfExt4InUse) { SnapshotRestoreClone("ext4"); }
TEST_F(PlainCopiesTest, OfXfsInUse) { SnapshotRestoreClone("xfs"); }
TEST_F(ReflinkCopiesTest, OfExt4InUse) { SnapshotRestoreClone("ext4"); }
TEST_F(ReflinkCopiesTest, OfXfsInUse) { SnapshotRestoreClone("xfs"); }

TEST_F(PlainCopiesTest, AFileSystemIsNotFrozenLongerThanTheLimit) {
  options_.freeze_limit = std::chrono::milliseconds(20);
  Restart();
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 512 * kMiB);
  Bring(id, capability, "pod");
  Write(Target("pod") + "/file", std::string(256 * kMiB, 'x'));
  const auto code = Snapshot(id, "snap").status().code();
  EXPECT_TRUE(code == StatusCode::kFailedPrecondition || code == StatusCode::kDeadlineExceeded)
      << base::CodeName(code);
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  Write(Target("pod") + "/other", "not frozen");
  TakeDown(id, "pod");
  EXPECT_TRUE(Snapshot(id, "snap").ok());
}

TEST_F(PlainCopiesTest, ARawBlockVolumeInUseIsRefusedWithoutReflinks) {
  const VolumeCapability capability = BlockCapability();
  const std::string id = Create("raw", capability, 8 * kMiB);
  Bring(id, capability, "pod");
  Write(Target("pod"), "raw");
  EXPECT_EQ(Snapshot(id, "snap").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(TryCreate(CloneRequest("clone", id, capability)).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  TakeDown(id, "pod");
  EXPECT_TRUE(Snapshot(id, "snap").ok());
}

TEST_F(ReflinkCopiesTest, ARawBlockVolumeInUseIsCopiedAsAfterACrash) {
  const VolumeCapability capability = BlockCapability();
  const std::string id = Create("raw", capability, 8 * kMiB);
  Bring(id, capability, "pod");
  Write(Target("pod"), "before");
  const auto snapshot = Snapshot(id, "snap");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  Write(Target("pod"), "after!");
  const auto restored = TryCreate(RestoreRequest("restored", *snapshot, capability));
  ASSERT_TRUE(restored.ok()) << restored.status();
  Bring(restored->volume_id(), capability, "restored");
  EXPECT_EQ(Read(Target("restored")).substr(0, 6), "before");
  TakeDown(restored->volume_id(), "restored");
  TakeDown(id, "pod");
}

TEST_F(PlainCopiesTest, ADeferredVolumeIsRefusedWithoutReflinks) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  const auto published = PublishFor(id, capability, Target("pod"), {"ext4"});
  ASSERT_TRUE(published.ok()) << published.status();
  {
    // As a virtual machine has it, which this host's kernel takes for no mount.
    const std::string& device = published->runtime_mount_info().source();
    const base::UniqueFd machine(open(device.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(machine.valid());
    EXPECT_EQ(Snapshot(id, "snap").status().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(TryCreate(CloneRequest("clone", id, capability)).status().code(),
              StatusCode::kFailedPrecondition);
    // Whether it has ended is not known by the target's end.
    EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
    EXPECT_EQ(Snapshot(id, "snap").status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(Snapshot(id, "snap").ok());
}

// A copy of a file system that a virtual machine writes to is worth nothing.
TEST_F(PlainCopiesTest, ADeferredVolumeWhoseRecordIsDamagedIsRefusedWithoutReflinks) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  const auto published = PublishFor(id, capability, Target("pod"), {"ext4"});
  ASSERT_TRUE(published.ok()) << published.status();
  {
    const std::string& device = published->runtime_mount_info().source();
    const base::UniqueFd machine(open(device.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(machine.valid());
    std::ofstream(options_.pool_folder + "/node/" + id + ".json") << "{";
    for (int i = 0; i < 2; ++i) {
      Restart();
      const base::Status copied = Snapshot(id, "snap").status();
      EXPECT_EQ(copied.code(), StatusCode::kFailedPrecondition) << copied;
      EXPECT_THAT(base::Message(copied), testing::HasSubstr("no record says who uses volume"));
    }
    EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
    EXPECT_EQ(Unstage(id).code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(Snapshot(id, "snap").ok());
}

TEST_F(PlainCopiesTest, AMountedVolumeWhoseRecordIsDamagedIsFrozenAndCopied) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "pod");
  std::ofstream(options_.pool_folder + "/node/" + id + ".json") << "{";
  Restart();
  EXPECT_TRUE(Snapshot(id, "snap").ok());
  TakeDown(id, "pod");
}

TEST_F(ReflinkCopiesTest, ADeferredVolumeIsCopiedAsAfterACrash) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    SCOPED_TRACE(type);
    if (!platform::FindFileSystem(type)->IsSupported(*exec_).ok()) continue;
    const VolumeCapability capability = MountCapability(type);
    const std::string id = Create(type, capability, 320 * kMiB);
    ASSERT_TRUE(Stage(id, capability).ok());
    const auto published = PublishFor(id, capability, Target("pod"), {type});
    ASSERT_TRUE(published.ok()) << published.status();
    base::StatusOr<std::string> snapshot = base::Error(StatusCode::kUnknown, "not made");
    {
      const FakeSandbox sandbox(published->runtime_mount_info());
      ASSERT_TRUE(sandbox.Write("file", "synced before"));
      snapshot = Snapshot(id, std::string("snap-") + type);
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      // It was not held up, and is not frozen.
      ASSERT_TRUE(sandbox.Write("file", "after"));
    }
    const auto restored =
        TryCreate(RestoreRequest(std::string("restored-") + type, *snapshot, capability));
    ASSERT_TRUE(restored.ok()) << restored.status();
    Bring(restored->volume_id(), capability, "restored");
    EXPECT_EQ(Read(Target("restored") + "/file"), "synced before");
    TakeDown(restored->volume_id(), "restored");
    TakeDown(id, "pod");
  }
}

TEST_F(CopiesTest, OfAVolumeThatNoPodEverUsed) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("blank", capability, 16 * kMiB);
  const auto snapshot = Snapshot(id, "snap");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  const auto restored = TryCreate(RestoreRequest("restored", *snapshot, capability));
  ASSERT_TRUE(restored.ok()) << restored.status();
  Bring(restored->volume_id(), capability, "pod");
  Write(Target("pod") + "/file", "x");
  TakeDown(restored->volume_id(), "pod");
}

TEST_F(CopiesTest, AFileSystemMountedOutOfSightIsNotCopied) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  // A process holds the device exclusively, as a mount in another namespace does.
  const platform::LoopDevice loop = LoopOf(id);
  {
    const base::UniqueFd held(open(loop.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(held.valid());
    EXPECT_EQ(Snapshot(id, "snap").status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(Snapshot(id, "snap").ok());
  EXPECT_TRUE(Unstage(id).ok());
}

// A pool whose file system is small and really full.
class FullPoolTest : private PoolOn, public CopiesTest {
 protected:
  FullPoolTest() : PoolOn("ext4", 64 * kMiB), CopiesTest(disk_.path() + "/pool") {}
  std::string mount_point() const { return disk_.path(); }
};

TEST_F(FullPoolTest, SaysSoAndLeavesNothingHalfMade) {
  const VolumeCapability capability = BlockCapability();
  const std::string id = Create("raw", capability, 40 * kMiB);
  EXPECT_EQ(TryCreate(CreateRequest("large", capability, 1024 * kMiB)).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(TryCreate(CreateRequest("second", capability, 100 * kMiB)).status().code(),
            StatusCode::kResourceExhausted);

  // Over-committed, but the bytes themselves have no room for a copy.
  Bring(id, capability, "pod");
  Write(Target("pod"), std::string(36 * kMiB, 'x'));
  TakeDown(id, "pod");
  const base::Status copied = TryCreate(CloneRequest("clone", id, capability)).status();
  EXPECT_EQ(copied.code(), StatusCode::kResourceExhausted) << copied;
  EXPECT_EQ(Snapshot(id, "snap").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(platform::ListFolder(options_.pool_folder + "/volumes")->size(), 2u);
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/snapshots"));

  // Full to the last block: what is there can still be used, ended and deleted.
  Bring(id, capability, "pod");
  {
    const base::UniqueFd filler(
        open((mount_point() + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string block(4096, 'f');
    while (write(filler.get(), block.data(), block.size()) > 0) {
    }
  }
  EXPECT_EQ(TryCreate(CreateRequest("third", capability, kMiB)).status().code(),
            StatusCode::kResourceExhausted);
  csi::v1::GetCapacityResponse capacity = *client_->GetCapacity({}, kTimeout);
  EXPECT_EQ(capacity.available_capacity(), 0);
  TakeDown(id, "pod");
  EXPECT_TRUE(Delete(id).ok());
  EXPECT_FALSE(std::filesystem::exists(Image(id)));
  std::filesystem::remove(mount_point() + "/filler");
  Restart();
  EXPECT_EQ(Create("third", capability, kMiB).size(), 36u);
  EXPECT_GT(client_->GetCapacity({}, kTimeout)->available_capacity(), 60 * kMiB);
}

}  // namespace
}  // namespace berth::csidriver
