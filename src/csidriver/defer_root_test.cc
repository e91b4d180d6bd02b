// Volumes whose mount is left to a container runtime (KEP-2857), through the driver's socket.
#include "csidriver/driver_fixture.h"
#include "csidriver/fake_sandbox.h"

namespace berth::csidriver {
namespace {

using csi::v1::FileSystemMountInfo;
using testing::HasSubstr;
using testing::Not;

class DeferTest : public DriverFixture {
 protected:
  // What a container runtime is told for a target; fails the test if it is told nothing.
  FileSystemMountInfo Deferred(const std::string& id, const VolumeCapability& capability,
                               const std::string& name, bool read_only = false) {
    const auto response =
        PublishFor(id, capability, Target(name), {"xfs", "ext4", "btrfs"}, read_only);
    EXPECT_TRUE(response.ok()) << response.status();
    EXPECT_TRUE(response.ok() && response->has_runtime_mount_info());
    return response.ok() ? response->runtime_mount_info() : FileSystemMountInfo();
  }
  base::Status TryDefer(const std::string& id, const VolumeCapability& capability,
                        const std::string& name, bool read_only = false) {
    return PublishFor(id, capability, Target(name), {"xfs", "ext4", "btrfs"}, read_only).status();
  }
  // No mount namespace that this test can see shows the volume.
  bool OnHost(const std::string& id) {
    const std::string source = LoopOf(id).path;
    const auto table = *mounter_->List();
    return std::ranges::any_of(table, [&](const auto& mount) { return mount.source == source; });
  }
  static std::string TextOf(const base::Status& status) {
    return std::string(base::Message(status));
  }
};

class DeferLifeCycleTest : public DeferTest, public testing::WithParamInterface<const char*> {};

TEST_P(DeferLifeCycleTest, ADeferredVolumeIsMountedByItsSandboxAloneAndByTheHostNextTime) {
  if (const base::Status status = platform::FindFileSystem(GetParam())->IsSupported(*exec_);
      !status.ok()) {
    GTEST_SKIP() << status;
  }
  VolumeCapability capability = MountCapability(GetParam());
  capability.mutable_mount()->add_mount_flags("noatime,rw");
  const std::string id = Create("pvc", capability, 400 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  EXPECT_FALSE(OnHost(id));
  const FileSystemMountInfo info = Deferred(id, capability, "pod");
  EXPECT_EQ(info.source(), LoopOf(id).path);
  EXPECT_EQ(info.type(), GetParam());
  EXPECT_EQ(info.options().size(), 2u);
  EXPECT_EQ(info.options().at("noatime"), "");
  EXPECT_TRUE(std::filesystem::is_directory(Target("pod")));
  {
    FileSystemMountInfo mount = info;
    mount.mutable_options()->clear();  // these are a mount's, not its file system's
    const FakeSandbox sandbox(mount);
    ASSERT_TRUE(sandbox.Write("file", "from the sandbox"));
    // Everything said again is done already, also to a driver that was started anew.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Stage(id, capability).ok());
      EXPECT_EQ(Deferred(id, capability, "pod").ShortDebugString(), info.ShortDebugString());
      Restart();
    }
    EXPECT_FALSE(OnHost(id));
    EXPECT_THAT(TextOf(Unstage(id)), HasSubstr(Target("pod")));
    EXPECT_EQ(Delete(id).code(), StatusCode::kFailedPrecondition);

    ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
    EXPECT_FALSE(std::filesystem::exists(Target("pod")));
    EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
  }
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(OurLoops().empty());

  Bring(id, capability, "pod-2");
  EXPECT_EQ(Read(Target("pod-2") + "/file"), "from the sandbox");
  EXPECT_THAT(platform::FindMount(*mounter_->List(), Target("pod-2"))->options,
              testing::Contains("noatime"));
  TakeDown(id, "pod-2");
  EXPECT_TRUE(Delete(id).ok());
}

INSTANTIATE_TEST_SUITE_P(FileSystems, DeferLifeCycleTest, testing::Values("ext4", "xfs", "btrfs"));

TEST_F(DeferTest, AFileSystemThatTheRuntimeCannotMountIsMountedHere) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  for (int i = 0; i < 2; ++i) {
    const auto response = PublishFor(id, capability, Target("pod"), {"xfs", "ext4dev"});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_FALSE(response->has_runtime_mount_info());
  }
  Write(Target("pod") + "/file", "here");
  TakeDown(id, "pod");
}

TEST_F(DeferTest, AFileSystemIsMountedHereWhileItIsPublishedHere) {
  const VolumeCapability capability = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  EXPECT_FALSE(IsMounted(Staging(id)));
  ASSERT_TRUE(Publish(id, capability, Target("a")).ok());
  ASSERT_TRUE(Publish(id, capability, Target("b"), true).ok());
  EXPECT_TRUE(IsMounted(Staging(id)));
  EXPECT_TRUE(Unpublish(id, Target("a")).ok());
  EXPECT_TRUE(IsMounted(Staging(id)));
  EXPECT_TRUE(Unpublish(id, Target("b")).ok());
  EXPECT_FALSE(OnHost(id));
  EXPECT_EQ(OurLoops().size(), 1u);
  ASSERT_TRUE(Publish(id, capability, Target("c")).ok());
  TakeDown(id, "c");
}

TEST_F(DeferTest, TwoKernelsNeverHaveOneFileSystem) {
  const VolumeCapability capability = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "host");
  base::Status refused = TryDefer(id, capability, "sandbox");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(refused), HasSubstr("mounted on this host at '" + Target("host") + "'"));
  EXPECT_FALSE(std::filesystem::exists(Target("sandbox")));
  // The very target is another matter: it is published already, otherwise.
  EXPECT_EQ(TryDefer(id, capability, "host").code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Unpublish(id, Target("host")).ok());

  Deferred(id, capability, "sandbox");
  EXPECT_FALSE(OnHost(id));
  Restart();
  refused = Publish(id, capability, Target("host"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(refused),
              HasSubstr("deferred to a container runtime at '" + Target("sandbox") + "'"));
  EXPECT_FALSE(OnHost(id));
  EXPECT_EQ(Publish(id, capability, Target("sandbox")).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(TryDefer(id, capability, "sandbox", true).code(), StatusCode::kAlreadyExists);
  for (const bool read_only : {false, true}) {
    refused = TryDefer(id, capability, "second", read_only);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(TextOf(refused), HasSubstr(Target("sandbox")));
  }
  TakeDown(id, "sandbox");
}

TEST_F(DeferTest, SandboxesThatOnlyReadShareAVolumeThatNoneOfThemCanWriteTo) {
  const VolumeCapability capability = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "writer");
  Write(Target("writer") + "/file", "shared");
  ASSERT_TRUE(Unpublish(id, Target("writer")).ok());
  const FileSystemMountInfo info = Deferred(id, capability, "a", true);
  EXPECT_EQ(info.options().at("ro"), "");
  EXPECT_FALSE(Writable(info.source()));
  EXPECT_EQ(Deferred(id, capability, "b", true).source(), info.source());
  EXPECT_EQ(TryDefer(id, capability, "c").code(), StatusCode::kFailedPrecondition);
  {
    const FakeSandbox sandbox(info);
    EXPECT_EQ(sandbox.Read("file"), "shared");
    EXPECT_FALSE(sandbox.Write("file", "changed"));
  }
  EXPECT_TRUE(Unpublish(id, Target("a")).ok());
  EXPECT_EQ(Publish(id, capability, Target("writer")).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Unpublish(id, Target("b")).ok());
  ASSERT_TRUE(Publish(id, capability, Target("writer")).ok());
  Write(Target("writer") + "/file", "writable again");
  TakeDown(id, "writer");
}

TEST_F(DeferTest, ASandboxThatStaysKeepsTheVolumeFromEveryNextUser) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  const FileSystemMountInfo info = Deferred(id, capability, "pod");
  {
    // As a virtual machine has it: open, and not mounted by this kernel.
    const base::UniqueFd machine(open(info.source().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(machine.valid());
    ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
    const base::Status refused = Publish(id, capability, Target("next"));
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(TextOf(refused), HasSubstr("whose sandbox has the device until it ends"));
    const base::Status held = Unstage(id);
    EXPECT_EQ(held.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(TextOf(held), HasSubstr("whose sandbox has the device until it ends"));
    EXPECT_FALSE(OnHost(id));
    EXPECT_FALSE(std::filesystem::exists(Target("next")));
    // That it grew is no reason to touch what the sandbox has.
    ASSERT_TRUE(Expand(id, 64 * kMiB).ok());
    EXPECT_EQ(*NodeExpand(id, Staging(id)), 64 * kMiB);
  }
  ASSERT_TRUE(Publish(id, capability, Target("next")).ok());
  EXPECT_GT(Stats(id, Target("next"))->usage(0).total(), 40 * kMiB);
  TakeDown(id, "next");
}

TEST_F(DeferTest, AHostMountThatSomebodyStillHasKeepsTheVolumeFromASandbox) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "pod");
  {
    // A program works in the folder at staging, where the last unpublish cannot unmount it.
    const base::UniqueFd inside(open(Staging(id).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
    EXPECT_TRUE(IsMounted(Staging(id)));
    EXPECT_EQ(TryDefer(id, capability, "sandbox").code(), StatusCode::kFailedPrecondition);
    EXPECT_FALSE(std::filesystem::exists(Target("sandbox")));
  }
  ASSERT_TRUE(Publish(id, capability, Target("pod")).ok());
  FileSystemMountInfo copy;
  copy.set_source(LoopOf(id).path);
  copy.set_type("ext4");
  {
    // A mount namespace that was copied meanwhile has the file system mounted, unseen from here.
    const FakeSandbox unseen(copy);
    ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
    EXPECT_FALSE(OnHost(id));
    EXPECT_EQ(TryDefer(id, capability, "sandbox").code(), StatusCode::kFailedPrecondition);
    // This host's kernel is the one that has it.
    ASSERT_TRUE(Publish(id, capability, Target("pod")).ok());
    ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
  }
  Deferred(id, capability, "sandbox");
  EXPECT_FALSE(OnHost(id));
  TakeDown(id, "sandbox");
}

TEST_F(DeferTest, AVolumeThatAnEarlierVersionStagedIsPublishedOrUnmountedFromTheHost) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  for (const bool defer : {false, true}) {
    ASSERT_TRUE(Stage(id, capability).ok());
    driver_.reset();
    const std::string file = options_.pool_folder + "/node/" + id + ".json";
    base::Json record = *base::json::Parse(*platform::ReadFile(file));
    record.erase("deviceUse");
    ASSERT_TRUE(platform::WriteDurably<"test.file">(file, base::json::Dump(record)).ok());
    ASSERT_TRUE(
        mounter_->Mount({.source = LoopOf(id).path, .target = Staging(id), .fs_type = "ext4"})
            .ok());
    Restart();
    EXPECT_TRUE(Stage(id, capability).ok());
    EXPECT_TRUE(IsMounted(Staging(id)));
    if (defer) {
      Deferred(id, capability, "pod");
    } else {
      ASSERT_TRUE(Publish(id, capability, Target("pod")).ok());
      EXPECT_TRUE(IsMounted(Target("pod")));
      ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
    }
    EXPECT_FALSE(OnHost(id));
    TakeDown(id, "pod");
  }
}

TEST_F(DeferTest, StatsAndGrowthAreTheRuntimesIfItHasThem) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 32 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  EXPECT_EQ(Stats(id, Staging(id)).status().code(), StatusCode::kFailedPrecondition);
  const FileSystemMountInfo info = Deferred(id, capability, "pod");
  for (const std::string& path : {Target("pod"), Staging(id)}) {
    EXPECT_EQ(Stats(id, path).status().code(), StatusCode::kFailedPrecondition);
    csi::v1::NodeGetVolumeStatsRequest stats;
    stats.set_volume_id(id);
    stats.set_volume_path(path);
    stats.set_runtime_supports_stats(true);
    const auto told = client_->NodeGetVolumeStats(stats, kTimeout);
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_EQ(told->source(), info.source());
    EXPECT_EQ(told->usage_size(), 0);
    EXPECT_FALSE(told->has_volume_condition());
  }
  EXPECT_EQ(Stats(id, Target("elsewhere")).status().code(), StatusCode::kNotFound);

  ASSERT_TRUE(Expand(id, 128 * kMiB).ok());
  const base::Status cannot = NodeExpand(id, Target("pod")).status();
  EXPECT_EQ(cannot.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(cannot), HasSubstr("cannot grow a file system"));
  csi::v1::NodeExpandVolumeRequest expand;
  expand.set_volume_id(id);
  expand.set_volume_path(Target("pod"));
  expand.set_runtime_supports_expand(true);
  for (int i = 0; i < 2; ++i) {
    const auto grown = client_->NodeExpandVolume(expand, kTimeout);
    ASSERT_TRUE(grown.ok()) << grown.status();
    EXPECT_EQ(grown->source(), info.source());
    EXPECT_EQ(grown->capacity_bytes(), 128 * kMiB);
  }
  EXPECT_EQ(LoopOf(id).size, 128u * kMiB);

  // What no runtime grew has grown for the next user.
  ASSERT_TRUE(Unpublish(id, Target("pod")).ok());
  ASSERT_TRUE(Publish(id, capability, Target("next")).ok());
  EXPECT_GT(Stats(id, Target("next"))->usage(0).total(), 90 * kMiB);
  TakeDown(id, "next");
}

TEST_F(DeferTest, ARawBlockVolumeIsNeverDeferred) {
  const VolumeCapability capability = BlockCapability();
  const std::string id = Create("raw", capability, 8 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  const auto response = PublishFor(id, capability, Target("pod"), {"", "ext4"});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->has_runtime_mount_info());
  EXPECT_TRUE(IsMounted(Target("pod")));
  TakeDown(id, "pod");
}

TEST_F(DeferTest, AStrangersMountAtTheStagingPathIsNamedAndGivenToNobody) {
  const VolumeCapability capability = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "pod");
  ASSERT_TRUE(
      mounter_->Mount({.source = "strange", .target = Staging(id), .fs_type = "tmpfs"}).ok());
  const std::string said = "another mount (tmpfs from 'strange') stands at";
  EXPECT_THAT(TextOf(Publish(id, capability, Target("next"))), HasSubstr(said));
  EXPECT_THAT(TextOf(TryDefer(id, capability, "next")), HasSubstr(said));
  EXPECT_THAT(TextOf(Stage(id, capability)), HasSubstr(said));
  EXPECT_EQ(Stats(id, Staging(id)).status().code(), StatusCode::kNotFound);
  // Who uses the volume can end all the same.
  EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
  EXPECT_EQ(Unstage(id).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(mounter_->Unmount(Staging(id)).ok());
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_THAT(TextOf(Unstage(id)), Not(HasSubstr(said)));
}

TEST_F(DeferTest, ALostRecordDoesNotGiveASandboxsVolumeToAnother) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  {
    const FakeSandbox sandbox(Deferred(id, capability, "pod"));
    driver_.reset();
    std::filesystem::remove(options_.pool_folder + "/node/" + id + ".json");
    Restart();
    EXPECT_EQ(Stage(id, capability).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(Publish(id, capability, Target("next")).code(), StatusCode::kFailedPrecondition);
    EXPECT_FALSE(OnHost(id));
    EXPECT_TRUE(sandbox.Write("file", "kept"));
  }
  ASSERT_TRUE(Stage(id, capability).ok());
  ASSERT_TRUE(Publish(id, capability, Target("next")).ok());
  EXPECT_EQ(Read(Target("next") + "/file"), "kept");
  EXPECT_TRUE(Unpublish(id, Target("pod")).ok());
  TakeDown(id, "next");
}

}  // namespace
}  // namespace berth::csidriver
