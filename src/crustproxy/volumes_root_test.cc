// Who mounts a volume, and what the driver's and the handler's doubles hear of it.
#include "crustproxy/volumes_fixture.h"

namespace berth::crustproxy {
namespace {

using VolumesTest = VolumesFixture;

TEST_F(VolumesTest, ADriverThatKnowsNoHandlersGivesADeviceInPlaceOfAFileSystem) {
  ASSERT_OK(Stage());
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 0);
  ASSERT_OK(Publish());
  const auto staged =
      driver_->script().LastRequest<csi::v1::NodeStageVolumeRequest>("NodeStageVolume");
  EXPECT_TRUE(staged.volume_capability().has_block());
  EXPECT_EQ(staged.staging_target_path(), paths_.CsiBlockStaging("pv-1").text());
  EXPECT_TRUE(AskedOfDriver().volume_capability().has_block());

  const auto asked = AskedOfHandler();
  EXPECT_EQ(asked.pod_uid(), kPod);
  EXPECT_EQ(asked.sandbox_id(), "");
  EXPECT_EQ(asked.host_target_path(), Target());
  EXPECT_EQ(asked.host_volume_id(), AskedOfDriver().target_path());
  EXPECT_EQ(asked.file_system(), "ext4");
  EXPECT_THAT(asked.mount_options(), ElementsAre("noatime", "nodiratime"));
  EXPECT_EQ(asked.fsgroup_gid(), 3000);
  EXPECT_EQ(asked.fsgroup_policy(), "Always");
  const auto found = platform::ProbeSignature(disk_->device());
  ASSERT_OK(found);
  EXPECT_EQ((*found)->type, "ext4");
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("RuntimeAssistedMount")));

  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AFileSystemThatTheDeviceHoldsIsKept) {
  ASSERT_OK(platform::PrepareFileSystem(*exec_, disk_->device(), "ext4"));
  ASSERT_OK(disk_->Mount("ext4"));
  ASSERT_OK(platform::WriteDurably<"crustproxy.test">(disk_->mount_point() + "/kept", "data"));
  ASSERT_OK(disk_->Unmount());
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  ASSERT_OK(disk_->Mount("ext4"));
  const auto kept = platform::ReadFile(disk_->mount_point() + "/kept");
  ASSERT_OK(kept);
  EXPECT_EQ(*kept, "data");
  ASSERT_OK(disk_->Unmount());
}

TEST_F(VolumesTest, ADriverThatPublishesNoDevicesMountsOnTheHost) {
  ASSERT_OK(Stage());
  driver_->script().Fail("NodeStageVolume",
                         base::Error(StatusCode::kInvalidArgument, "no block volumes here"));
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("no block volumes here")));
  EXPECT_TRUE(AskedOfDriver().volume_capability().has_mount());
  EXPECT_EQ(AskedOfDriver().target_path(), Target());
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AFileSystemThatTheHandlerDoesNotMountIsMountedOnTheHost) {
  handler_->options().file_systems = {"xfs"};
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(),
              ElementsAre(HasSubstr("its file system is ext4, and the handler mounts xfs")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  const auto found = platform::ProbeSignature(disk_->device());
  ASSERT_OK(found);
  EXPECT_FALSE(found->has_value());  // not formatted
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AHandlerThatAppliesNoFsGroupLeavesTheVolumeToTheHost) {
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("fsGroup")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
}

TEST_F(VolumesTest, AHandlerThatSetsNoLabelsLeavesTheVolumeToTheHost) {
  AddPod(kPod, "sandboxed", {{"seLinuxOptions", {{"level", "s0:c1"}}}});
  handler_->Lose(Capability::SELINUX_RELABEL);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("SELinux label")));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
}

TEST_F(VolumesTest, AVolumeOfPodsWithoutAHandlerIsTheDriversAlone) {
  for (const std::string runtime_class : {"", "plain"}) {
    AddPod(kPod, runtime_class);
    ASSERT_OK(Stage());
    EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
    ASSERT_OK(Publish());
    EXPECT_TRUE(AskedOfDriver().volume_capability().has_mount());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    ASSERT_OK(Unpublish());
    ASSERT_OK(Unstage());
    EXPECT_THAT(driver_->state().StagingPaths(), IsEmpty());
  }
}

TEST_F(VolumesTest, TheHostDoesNotMountWhatASandboxHas) {
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  AddPod("second", "");
  const Status refused = Publish("second");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr(kPod));
  ASSERT_OK(Unpublish());
  // The kubelet does not stage again while a pod wants the volume.
  ASSERT_OK(Publish("second"));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Unpublish("second"));
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, AVolumeThatTheHostHasMountedForThePodStaysThere) {
  driver_->state().options().node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  handler_->Lose(Capability::POD_VOLUMES);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  ASSERT_OK(mounter_->Mount({.source = "volume", .target = Target(), .fs_type = "tmpfs"}));
  handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
  ASSERT_OK(Publish());  // as after a restart of the kubelet
  EXPECT_THAT(AskedOfDriver().runtime_supported_filesystems(), IsEmpty());
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(mounter_->Unmount(Target()));
}

TEST_F(VolumesTest, AVolumeThatIsStagedWithSecretsIsNotDeferred) {
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(kHandle);
  request.set_staging_target_path(Staging());
  *request.mutable_volume_capability() = Mount();
  (*request.mutable_secrets())["key"] = "canary";
  ASSERT_OK(platform::MakeFolders(Staging()));
  ASSERT_OK(volumes_->Stage(request));
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("secrets")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
}

TEST_F(VolumesTest, ADriverThatKnowsHandlersLeavesTheMount) {
  rpc::FakeCsiDriver::Options& driver = driver_->state().options();
  driver.node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  driver.deferred.emplace();
  driver.deferred->set_source(disk_->device());
  driver.deferred->set_type("xfs");
  AddPod(kPod, "sandboxed", {{"fsGroup", 3000}, {"seLinuxOptions", {{"level", "s0:c1"}}}});
  ASSERT_OK(Stage());
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  ASSERT_OK(Publish());
  EXPECT_THAT(AskedOfDriver().runtime_supported_filesystems(), ElementsAre("ext4", "xfs"));
  EXPECT_EQ(AskedOfHandler().host_volume_id(), disk_->device());
  EXPECT_EQ(AskedOfHandler().file_system(), "xfs");
  EXPECT_EQ(AskedOfHandler().fsgroup_gid(), 3000);
  EXPECT_EQ(AskedOfHandler().selinux_label(), "system_u:object_r:container_file_t:s0:c1");
  EXPECT_TRUE(AskedOfHandler().selinux_relabel());
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, StatisticsAndGrowthComeFromTheSandbox) {
  driver_->state().options().node_capabilities = {NodeRpc::STAGE_UNSTAGE_VOLUME,
                                                  NodeRpc::EXPAND_VOLUME};
  const auto capabilities = volumes_->GetCapabilities({});
  ASSERT_OK(capabilities);
  EXPECT_TRUE(volume::ReadNodeCapabilities(*capabilities).volume_stats);
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  handler_->options().abnormal = "it does not answer";
  csi::v1::NodeGetVolumeStatsRequest stats;
  stats.set_volume_id(kHandle);
  stats.set_volume_path(Target());
  const auto usage = volumes_->GetStats(stats);
  ASSERT_OK(usage);
  EXPECT_EQ(usage->usage(0).total(), handler_->options().total_bytes);
  EXPECT_EQ(usage->volume_condition().message(), "it does not answer");

  csi::v1::NodeExpandVolumeRequest grow;
  grow.set_volume_id(kHandle);
  grow.set_volume_path(Target());
  grow.set_staging_target_path(Staging());
  grow.mutable_capacity_range()->set_required_bytes(1 << 21);
  *grow.mutable_volume_capability() = Mount();
  const auto grown = volumes_->Expand(grow);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->capacity_bytes(), 1 << 21);
  const auto asked =
      driver_->script().LastRequest<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume");
  EXPECT_EQ(asked.volume_path(), AskedOfDriver().target_path());
  EXPECT_TRUE(asked.volume_capability().has_block());
  handler_->Lose(Capability::VOLUME_RESIZE);
  EXPECT_EQ(volumes_->Expand(grow).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(VolumesTest, ADriverThatGivesNoDeviceMountsOnTheHost) {
  // It says OK, but does not do what it was asked for.
  driver_->script().AfterEffect("NodePublishVolume", [](const auto&) { return base::OkStatus(); });
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("but there is none at")));
  EXPECT_TRUE(AskedOfDriver().volume_capability().has_mount());
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, ADriverThatPublishesAFolderForADeviceMountsOnTheHost) {
  driver_->script().AfterEffect("NodePublishVolume", [](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
    if (!request.volume_capability().has_block()) return base::OkStatus();
    std::filesystem::remove(request.target_path());
    std::filesystem::create_directory(request.target_path());
    return base::OkStatus();
  });
  // A driver need not remove the folder.
  driver_->script().AfterEffect("NodeUnpublishVolume", [](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodeUnpublishVolumeRequest&>(message);
    std::filesystem::create_directory(request.target_path());
    return base::OkStatus();
  });
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("but there is none at")));
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
}

TEST_F(VolumesTest, ADriverThatMountsAFileSystemForADeviceMountsOnTheHost) {
  driver_->script().AfterEffect("NodeStageVolume", [this](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodeStageVolumeRequest&>(message);
    return mounter_->Mount(
        {.source = "volume", .target = request.staging_target_path(), .fs_type = "tmpfs"});
  });
  driver_->script().AfterEffect("NodeUnstageVolume", [this](const auto& message) {
    const auto& request = dynamic_cast<const csi::v1::NodeUnstageVolumeRequest&>(message);
    return mounter_->Unmount(request.staging_target_path());
  });
  ASSERT_OK(Stage());
  ASSERT_OK(Publish());
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("mounted a file system")));
  EXPECT_THAT(driver_->state().TargetPaths(), ElementsAre(Target()));
  EXPECT_THAT(driver_->state().StagingPaths(), ElementsAre(Staging()));
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  ASSERT_OK(Unpublish());
  ASSERT_OK(Unstage());
  ExpectNothingIsLeft();
}

// pod.spec.volumes[].csi: there is no PersistentVolume, and so no class that allows a handler.
TEST_F(VolumesTest, AnInlineVolumeOfAPodWithAHandlerIsMountedOnTheHost) {
  AddPod(kPod, "sandboxed", Json::object(),
         {{"name", "scratch"}, {"csi", {{"driver", driver_->name()}}}});
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id("csi-0123456789abcdef");
  (*request.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
  request.set_target_path(paths_.Pod(kPod) + "/volumes/kubernetes.io~csi/scratch/mount");
  *request.mutable_volume_capability() = Mount();
  ASSERT_OK(platform::MakeFolders(std::filesystem::path(request.target_path()).parent_path()));
  ASSERT_OK(volumes_->Publish(request));
  EXPECT_EQ(AskedOfDriver().SerializeAsString(), request.SerializeAsString());
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 0);
  csi::v1::NodeUnpublishVolumeRequest unpublish;
  unpublish.set_volume_id(request.volume_id());
  unpublish.set_target_path(request.target_path());
  ASSERT_OK(volumes_->Unpublish(unpublish));
  EXPECT_THAT(driver_->state().TargetPaths(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
}

TEST_F(VolumesTest, TwoKernelsDoNotMountAVolumeOfADriverWithoutStages) {
  HaveNoStages();
  AddPod("second", "");
  // The sandbox first.
  ASSERT_OK(Publish());
  Restart();
  Status refused = Publish("second");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr(kPod));
  ASSERT_OK(Unpublish());
  // The host first.
  ASSERT_OK(Publish("second"));
  Restart();
  refused = Publish();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("on the host for pod 'second'"));
  EXPECT_EQ(handler_->script().Count("RuntimePublishVolume"), 1);
  ASSERT_OK(Unpublish("second"));
  ASSERT_OK(Publish());
  ASSERT_OK(Unpublish());
  ExpectNothingIsLeft();
}

TEST_F(VolumesTest, WhatTheHostMountedBeforeTheProxyCameIsNotMountedInASandbox) {
  HaveNoStages();
  AddPod("second", "");
  ASSERT_OK(Publish("second"));
  ASSERT_OK(mounter_->Mount({.source = "volume", .target = Target("second"), .fs_type = "tmpfs"}));
  std::filesystem::remove_all(folder_ / "records");
  Restart();
  const Status refused = Publish();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("on the host for pod 'second'"));
  ASSERT_OK(mounter_->Unmount(Target("second")));
  ASSERT_OK(Unpublish("second"));
  ASSERT_OK(Publish());
}

}  // namespace
}  // namespace berth::crustproxy
