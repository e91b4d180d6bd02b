// The driver through its socket, on real loop devices: life cycle, idempotency, error codes,
// restart.
#include "csidriver/driver_fixture.h"

namespace berth::csidriver {
namespace {

using testing::HasSubstr;

class DriverTest : public DriverFixture {};

class LifeCycleTest : public DriverFixture, public testing::WithParamInterface<const char*> {};

TEST_P(LifeCycleTest, DataSurvivesFromPodToPodAndAcrossARestart) {
  if (const base::Status status = platform::FindFileSystem(GetParam())->IsSupported(*exec_);
      !status.ok()) {
    GTEST_SKIP() << status;
  }
  const VolumeCapability capability = MountCapability(GetParam());
  const std::string id = Create("pvc", capability, 400 * kMiB);
  Bring(id, capability, "pod-1");
  EXPECT_EQ(platform::FindMount(*mounter_->List(), Target("pod-1"))->fs_type, GetParam());
  Write(Target("pod-1") + "/file", "first pod");
  EXPECT_TRUE(LoopOf(id).direct_io);

  // Everything said again is done already, also to a driver that was started anew.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Create("pvc", capability, 400 * kMiB), id);
    EXPECT_TRUE(Stage(id, capability).ok());
    EXPECT_TRUE(Publish(id, capability, Target("pod-1")).ok());
    EXPECT_EQ(Read(Target("pod-1") + "/file"), "first pod");
    Restart();
  }
  EXPECT_EQ(Delete(id).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unstage(id).code(), StatusCode::kFailedPrecondition);

  TakeDown(id, "pod-1");
  EXPECT_FALSE(std::filesystem::exists(Target("pod-1")));
  EXPECT_FALSE(IsMounted(Staging(id)));
  EXPECT_TRUE(OurLoops().empty());
  EXPECT_TRUE(Unpublish(id, Target("pod-1")).ok());
  EXPECT_TRUE(Unstage(id).ok());

  Bring(id, capability, "pod-2");
  EXPECT_EQ(Read(Target("pod-2") + "/file"), "first pod");
  TakeDown(id, "pod-2");
  EXPECT_TRUE(Delete(id).ok());
  EXPECT_TRUE(Delete(id).ok());
  EXPECT_FALSE(std::filesystem::exists(Image(id)));
  EXPECT_EQ(Unpublish(id, Target("pod-2")).code(), StatusCode::kNotFound);
  EXPECT_EQ(Stage(id, capability).code(), StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(FileSystems, LifeCycleTest, testing::Values("ext4", "xfs", "btrfs"));

TEST_F(DriverTest, ARawBlockVolumeIsADevice) {
  const VolumeCapability capability = BlockCapability();
  const std::string id = Create("raw", capability, 8 * kMiB);
  Bring(id, capability, "pod-1");
  struct stat st;
  ASSERT_EQ(stat(Target("pod-1").c_str(), &st), 0);
  EXPECT_TRUE(S_ISBLK(st.st_mode));
  EXPECT_EQ(st.st_rdev, LoopOf(id).device);
  Write(Target("pod-1"), "raw data");
  Restart();
  EXPECT_TRUE(Publish(id, capability, Target("pod-1")).ok());
  EXPECT_EQ(Publish(id, capability, Target("pod-1"), true).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Stats(id, Target("pod-1"))->usage(0).total(), 8 * kMiB);
  EXPECT_EQ(*Expand(id, 16 * kMiB), 16 * kMiB);
  EXPECT_EQ(*NodeExpand(id, Target("pod-1")), 16 * kMiB);
  EXPECT_EQ(LoopOf(id).size, 16u * kMiB);
  TakeDown(id, "pod-1");
  EXPECT_FALSE(std::filesystem::exists(Target("pod-1")));

  // Read-only goes for the device itself, which a bind does not protect.
  ASSERT_TRUE(Stage(id, capability).ok());
  ASSERT_TRUE(Publish(id, capability, Target("reader"), true).ok());
  EXPECT_FALSE(Writable(LoopOf(id).path));
  EXPECT_EQ(Read(Target("reader")).substr(0, 8), "raw data");
  TakeDown(id, "reader");
  Bring(id, capability, "writer");
  EXPECT_TRUE(Writable(Target("writer")));
  TakeDown(id, "writer");
  EXPECT_TRUE(Delete(id).ok());
}

TEST_F(DriverTest, ASecondPublishFollowsTheAccessMode) {
  const VolumeCapability many = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const VolumeCapability one = MountCapability("ext4", AccessMode::SINGLE_NODE_SINGLE_WRITER);
  const std::string id = Create("pvc", many, 16 * kMiB);
  Bring(id, many, "a");
  EXPECT_EQ(Publish(id, many, Target("a"), true).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(Publish(id, many, Target("b"), true).ok());
  Write(Target("a") + "/file", "shared");
  EXPECT_EQ(Read(Target("b") + "/file"), "shared");
  EXPECT_FALSE(Writable(Target("b") + "/file"));
  EXPECT_EQ(Publish(id, one, Target("c")).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(std::filesystem::exists(Target("c")));
  EXPECT_TRUE(Unpublish(id, Target("b")).ok());
  EXPECT_EQ(Unstage(id).code(), StatusCode::kFailedPrecondition);
  // What is published at `a` is another capability than this.
  EXPECT_EQ(Publish(id, one, Target("a")).code(), StatusCode::kAlreadyExists);
  TakeDown(id, "a");
  EXPECT_EQ(Publish(id, many, Target("a")).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Delete(id).ok());
}

TEST_F(DriverTest, StagingAnewWithOtherArgumentsIsRefused) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  VolumeCapability flags = capability;
  flags.mutable_mount()->add_mount_flags("noatime");
  EXPECT_EQ(Stage(id, flags).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Stage(id, capability, folder_ / "staging/elsewhere").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stage(id, BlockCapability()).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stage(id, MountCapability("xfs")).code(), StatusCode::kFailedPrecondition);
  // Unstaging from where it is not staged changes nothing.
  EXPECT_TRUE(Unstage(id, folder_ / "staging/elsewhere").ok());
  EXPECT_EQ(OurLoops().size(), 1u);
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(OurLoops().empty());
  Bring(id, flags, "pod");
  const auto table = *mounter_->List();
  EXPECT_THAT(platform::FindMount(table, Target("pod"))->options, testing::Contains("noatime"));
  TakeDown(id, "pod");
}

TEST_F(DriverTest, WhatIsMountedAtATargetBySomebodyElseIsLeftAlone) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  std::filesystem::create_directory(Target("taken"));
  ASSERT_TRUE(
      mounter_->Mount({.source = "tmpfs", .target = Target("taken"), .fs_type = "tmpfs"}).ok());
  Write(Target("taken") + "/file", "theirs");
  EXPECT_EQ(Publish(id, capability, Target("taken")).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unpublish(id, Target("taken")).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Stats(id, Target("taken")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Read(Target("taken") + "/file"), "theirs");
  ASSERT_TRUE(mounter_->Unmount(Target("taken")).ok());
  // A folder that is not empty is not ours to remove either.
  std::filesystem::create_directory(Target("taken") + "/folder");
  EXPECT_EQ(Unpublish(id, Target("taken")).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Unstage(id).ok());
}

TEST_F(DriverTest, AForeignFileSystemIsNamedAndLeftAsItIs) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 320 * kMiB);
  auto loop = platform::AttachLoop(Image(id), {});
  ASSERT_TRUE(loop.ok());
  ASSERT_TRUE(platform::FormatIfBlank(*exec_, loop->path, "xfs", {}).ok());
  const auto before = platform::ProbeSignature(loop->path);
  ASSERT_TRUE(platform::DetachLoop(*loop).ok());
  const base::Status staged = Stage(id, capability);
  EXPECT_EQ(staged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(staged)), HasSubstr("xfs"));
  EXPECT_TRUE(OurLoops().empty());
  loop = platform::AttachLoop(Image(id), {});
  EXPECT_EQ((*platform::ProbeSignature(loop->path))->uuid, (*before)->uuid);
  ASSERT_TRUE(platform::DetachLoop(*loop).ok());
  // Not even one of the right kind, if it is not the one that was made for this volume.
  const std::string other = Create("other", capability, 32 * kMiB);
  loop = platform::AttachLoop(Image(other), {});
  ASSERT_TRUE(platform::FormatIfBlank(*exec_, loop->path, "ext4", {}).ok());
  ASSERT_TRUE(platform::DetachLoop(*loop).ok());
  EXPECT_EQ(Stage(other, capability).code(), StatusCode::kFailedPrecondition);
}

TEST_F(DriverTest, AVolumeThatWasFormattedOnceIsNeverFormattedAgain) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 32 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  ASSERT_TRUE(Unstage(id).ok());
  {
    const base::UniqueFd image(open(Image(id).c_str(), O_RDWR | O_CLOEXEC));
    const std::string zeros(kMiB, '\0');
    ASSERT_EQ(pwrite(image.get(), zeros.data(), zeros.size(), 0), kMiB);
  }
  EXPECT_EQ(Stage(id, capability).code(), StatusCode::kFailedPrecondition);
  const base::UniqueFd image(open(Image(id).c_str(), O_RDONLY | O_CLOEXEC));
  std::string start(kMiB, 'x');
  ASSERT_EQ(pread(image.get(), start.data(), start.size(), 0), kMiB);
  EXPECT_EQ(start, std::string(kMiB, '\0'));
}

TEST_F(DriverTest, AFormatThatACrashCutOffIsBegunAnew) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 32 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  ASSERT_TRUE(Unstage(id).ok());
  driver_.reset();
  const std::string path = options_.pool_folder + "/volumes/" + id + ".json";
  auto record = block::DecodeRecord(*platform::ReadFile(path));
  ASSERT_EQ(record->content, block::Content::kFormatted);
  record->content = block::Content::kFormatting;
  ASSERT_TRUE(platform::WriteDurably<"test.file">(path, block::Encode(*record)).ok());
  Restart();
  Bring(id, capability, "pod");
  EXPECT_EQ(block::DecodeRecord(*platform::ReadFile(path))->content, block::Content::kFormatted);
  TakeDown(id, "pod");
}

TEST_F(DriverTest, GrowsWhileInUse) {
  const VolumeCapability capability = MountCapability("xfs");
  const std::string id = Create("pvc", capability, 320 * kMiB);
  Bring(id, capability, "pod");
  Write(Target("pod") + "/file", "data");
  const int64_t before = Stats(id, Target("pod"))->usage(0).total();
  EXPECT_EQ(*Expand(id, 640 * kMiB), 640 * kMiB);
  EXPECT_EQ(*Expand(id, 640 * kMiB), 640 * kMiB);
  EXPECT_EQ(*NodeExpand(id, Target("pod")), 640 * kMiB);
  EXPECT_EQ(*NodeExpand(id, Staging(id)), 640 * kMiB);
  EXPECT_GT(Stats(id, Target("pod"))->usage(0).total(), before + 256 * kMiB);
  EXPECT_EQ(Read(Target("pod") + "/file"), "data");
  EXPECT_EQ(NodeExpand(id, Target("nowhere")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Expand(id, int64_t{1} << 60).status().code(), StatusCode::kOutOfRange);
  TakeDown(id, "pod");
}

TEST_F(DriverTest, GrowthThatMustWaitHappensAtTheNextStage) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 32 * kMiB);
  Bring(id, capability, "pod-1");
  Write(Target("pod-1") + "/file", "data");
  TakeDown(id, "pod-1");
  EXPECT_EQ(*Expand(id, 128 * kMiB), 128 * kMiB);
  Bring(id, capability, "pod-2");
  EXPECT_GT(Stats(id, Target("pod-2"))->usage(0).total(), 90 * kMiB);
  EXPECT_EQ(Read(Target("pod-2") + "/file"), "data");
  EXPECT_EQ(*NodeExpand(id, Target("pod-2")), 128 * kMiB);
  // While mounted, growth needs CAP_SYS_RESOURCE; without it the answer is CSI's "not while in
  // use".
  ASSERT_TRUE(Expand(id, 160 * kMiB).ok());
  const auto grown = NodeExpand(id, Target("pod-2"));
  EXPECT_TRUE(grown.ok() || grown.status().code() == StatusCode::kFailedPrecondition)
      << grown.status();
  TakeDown(id, "pod-2");
  Bring(id, capability, "pod-3");
  EXPECT_GT(Stats(id, Target("pod-3"))->usage(0).total(), 120 * kMiB);
  TakeDown(id, "pod-3");
}

TEST_F(DriverTest, AMountFlagThatTheFileSystemDoesNotKnowIsSaidAndLeavesNothing) {
  VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  capability.mutable_mount()->add_mount_flags("no-such-flag");
  ASSERT_TRUE(Stage(id, capability).ok());
  EXPECT_EQ(Publish(id, capability, Target("pod")).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(Target("pod")));
  EXPECT_FALSE(IsMounted(Staging(id)));
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(OurLoops().empty());
  EXPECT_TRUE(std::filesystem::is_empty(options_.pool_folder + "/node"));
  EXPECT_TRUE(Delete(id).ok());
}

TEST_F(DriverTest, AnnouncesItselfByARegistrationSocket) {
  driver_.reset();
  options_.registration_folder = folder_ / "plugins_registry";
  Restart();
  const std::string socket = options_.registration_folder + "/local.csi.berth.dev-reg.sock";
  const auto info = rpc::GetPluginInfo(socket, kTimeout);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, "local.csi.berth.dev");
  EXPECT_EQ(info->endpoint, options_.endpoint);
  driver_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST_F(DriverTest, CallsUnderWayAreAnsweredWhenTheDriverEnds) {
  std::vector<std::jthread> threads;
  std::vector<base::Status> results(16);
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] =
          TryCreate(CreateRequest(fmt::format("pvc-{}", i), MountCapability("ext4"), 8 * kMiB))
              .status();
    });
  }
  driver_.reset();
  threads.clear();
  size_t made = 0;
  for (const base::Status& result : results) {
    made += result.ok() ? 1 : 0;
    EXPECT_TRUE(result.ok() || result.code() == StatusCode::kUnavailable ||
                result.code() == StatusCode::kCancelled)
        << result;
  }
  Restart();
  // Each volume whose creation was answered is found. A volume whose answer was lost may be there.
  EXPECT_GE(client_->ListVolumes({}, kTimeout)->entries_size(), static_cast<int>(made));
}

TEST_F(DriverTest, StatsTellUsageAndCondition) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 64 * kMiB);
  Bring(id, capability, "pod");
  const auto stats = Stats(id, Target("pod"));
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->usage_size(), 2);
  EXPECT_EQ(stats->usage(0).unit(), csi::v1::VolumeUsage::BYTES);
  EXPECT_EQ(stats->usage(1).unit(), csi::v1::VolumeUsage::INODES);
  EXPECT_GT(stats->usage(0).available(), 30 * kMiB);
  EXPECT_FALSE(stats->volume_condition().abnormal());
  EXPECT_EQ(Stats(id, Target("nowhere")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Stats(id, "some/path").status().code(), StatusCode::kNotFound);

  std::filesystem::rename(Image(id), Image(id) + ".aside");
  EXPECT_TRUE(Stats(id, Target("pod"))->volume_condition().abnormal());
  csi::v1::ControllerGetVolumeRequest request;
  request.set_volume_id(id);
  EXPECT_TRUE(
      client_->ControllerGetVolume(request, kTimeout)->status().volume_condition().abnormal());
  std::filesystem::rename(Image(id) + ".aside", Image(id));
  EXPECT_FALSE(
      client_->ControllerGetVolume(request, kTimeout)->status().volume_condition().abnormal());
  TakeDown(id, "pod");
}

TEST_F(DriverTest, AVolumeWhoseImageWasSwappedIsNotHandedToAPod) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  std::filesystem::rename(Image(id), Image(id) + ".aside");
  std::filesystem::copy_file(Image(id) + ".aside", Image(id));
  EXPECT_EQ(Publish(id, capability, Target("pod")).code(), StatusCode::kDataLoss);
  std::filesystem::rename(Image(id) + ".aside", Image(id));
  EXPECT_TRUE(Publish(id, capability, Target("pod")).ok());
  TakeDown(id, "pod");
}

// A request that lacks a field is refused as such, even if its volume does not exist. csi-sanity
// wants it so.
TEST_F(DriverTest, AMissingFieldIsToldBeforeAnUnknownVolume) {
  const auto code = [&](auto call, auto request) {
    request.set_volume_id("no-such-volume");
    return (client_.get()->*call)(request, kTimeout).status().code();
  };
  using rpc::CsiClient;
  using namespace csi::v1;
  NodeStageVolumeRequest stage;
  EXPECT_EQ(code(&CsiClient::NodeStageVolume, stage), StatusCode::kInvalidArgument);
  stage.set_staging_target_path("/staging");
  EXPECT_EQ(code(&CsiClient::NodeStageVolume, stage), StatusCode::kInvalidArgument);
  *stage.mutable_volume_capability() = MountCapability("ext4");
  EXPECT_EQ(code(&CsiClient::NodeStageVolume, stage), StatusCode::kNotFound);

  NodePublishVolumeRequest publish;
  EXPECT_EQ(code(&CsiClient::NodePublishVolume, publish), StatusCode::kInvalidArgument);
  publish.set_target_path("/target");
  EXPECT_EQ(code(&CsiClient::NodePublishVolume, publish), StatusCode::kInvalidArgument);
  *publish.mutable_volume_capability() = MountCapability("ext4");
  EXPECT_EQ(code(&CsiClient::NodePublishVolume, publish), StatusCode::kNotFound);

  EXPECT_EQ(code(&CsiClient::NodeUnpublishVolume, NodeUnpublishVolumeRequest()),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(&CsiClient::NodeUnstageVolume, NodeUnstageVolumeRequest()),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(&CsiClient::NodeExpandVolume, NodeExpandVolumeRequest()),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(&CsiClient::NodeGetVolumeStats, NodeGetVolumeStatsRequest()),
            StatusCode::kInvalidArgument);
}

TEST_F(DriverTest, TellsWhatItIs) {
  const auto info = client_->GetPluginInfo({}, kTimeout);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name(), "local.csi.berth.dev");
  EXPECT_FALSE(info->vendor_version().empty());
  EXPECT_TRUE(client_->Probe({}, kTimeout)->ready().value());
  EXPECT_EQ(client_->GetPluginCapabilities({}, kTimeout)->capabilities_size(), 4);
  EXPECT_EQ(client_->ControllerGetCapabilities({}, kTimeout)->capabilities_size(), 10);
  EXPECT_EQ(client_->GroupControllerGetCapabilities({}, kTimeout)->capabilities_size(), 1);
  // Runtime-assisted mounting is told only to callers that know it, because CSI does not define it.
  csi::v1::NodeGetCapabilitiesRequest request;
  EXPECT_EQ(client_->NodeGetCapabilities(request, kTimeout)->capabilities_size(), 5);
  request.set_runtime_supports_mount(true);
  EXPECT_EQ(client_->NodeGetCapabilities(request, kTimeout)->capabilities_size(), 6);
  const auto node = client_->NodeGetInfo({}, kTimeout);
  EXPECT_EQ(node->node_id(), "node-1");
  EXPECT_EQ(node->accessible_topology().segments().at("topology.local.csi.berth.dev/node"),
            "node-1");
  EXPECT_EQ(client_->ControllerPublishVolume({}, kTimeout).status().code(),
            StatusCode::kUnimplemented);
}

TEST_F(DriverTest, ListsPageByPageAndConfirmsCapabilities) {
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.insert(Create(fmt::format("pvc-{}", i), MountCapability("ext4"), 8 * kMiB));
  }
  std::set<std::string> listed;
  csi::v1::ListVolumesRequest request;
  request.set_max_entries(2);
  do {
    const auto page = client_->ListVolumes(request, kTimeout);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->entries_size(), 2);
    for (const auto& entry : page->entries()) listed.insert(entry.volume().volume_id());
    request.set_starting_token(page->next_token());
  } while (!request.starting_token().empty());
  EXPECT_EQ(listed, made);
  request.set_starting_token("bogus");
  EXPECT_EQ(client_->ListVolumes(request, kTimeout).status().code(), StatusCode::kAborted);

  csi::v1::ValidateVolumeCapabilitiesRequest validate;
  validate.set_volume_id(*made.begin());
  *validate.add_volume_capabilities() = MountCapability("ext4");
  EXPECT_TRUE(client_->ValidateVolumeCapabilities(validate, kTimeout)->has_confirmed());
  *validate.mutable_volume_capabilities(0) = BlockCapability();
  const auto refused = client_->ValidateVolumeCapabilities(validate, kTimeout);
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->has_confirmed());
  EXPECT_FALSE(refused->message().empty());
  validate.set_volume_id(base::NewUuid());
  EXPECT_EQ(client_->ValidateVolumeCapabilities(validate, kTimeout).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DriverTest, ASecondDriverOnTheSamePoolIsRefused) {
  DriverOptions second = options_;
  second.endpoint = folder_ / "second.sock";
  EXPECT_EQ(Driver::Start(second).status().code(), StatusCode::kFailedPrecondition);
  DriverOptions bad = options_;
  bad.node_id = "-not a label-";
  EXPECT_EQ(Driver::Start(bad).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DriverTest, ParallelCallsForOneNameMakeOneVolume) {
  std::vector<std::jthread> threads;
  std::vector<base::StatusOr<csi::v1::Volume>> results(
      8, base::Error(StatusCode::kUnknown, "not called"));
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      do {
        results[i] = TryCreate(CreateRequest("same", MountCapability("ext4"), 8 * kMiB));
      } while (results[i].status().code() == StatusCode::kAborted);
    });
  }
  threads.clear();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->volume_id(), results[0]->volume_id());
  }
}

}  // namespace
}  // namespace berth::csidriver
