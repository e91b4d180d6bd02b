// File-system volumes are staged, published, torn down and grown, and what is on disk meanwhile.
#include <sys/stat.h>

#include <thread>

#include "volume/csi/mount_volumes_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST_F(MountVolumesTest, AVolumeIsStagedPublishedAndTornDown) {
  const VolumeSpec spec = Persistent(
      {{"mountOptions", {"noatime"}}, {"csi", {{"volumeAttributes", {{"pool", "fast"}}}}}});
  ASSERT_TRUE(Stage(spec).ok());
  const auto stage = Last<StageRequest>("NodeStageVolume");
  EXPECT_EQ(stage.volume_id(), "vol-1");
  EXPECT_EQ(stage.staging_target_path(), Path(kDevice + "/globalmount"));
  EXPECT_THAT(stage.publish_context(), UnorderedElementsAre(Pair("device", "/dev/xvdb")));
  EXPECT_THAT(stage.volume_context(), UnorderedElementsAre(Pair("pool", "fast")));
  EXPECT_EQ(stage.volume_capability().mount().fs_type(), "ext4");
  EXPECT_THAT(stage.volume_capability().mount().mount_flags(), ElementsAre("noatime"));
  EXPECT_EQ(stage.volume_capability().access_mode().mode(), Mode::SINGLE_NODE_WRITER);
  EXPECT_EQ(ReadJson(kDevice + "/vol_data.json"),
            (Json{{"volumeHandle", "vol-1"}, {"driverName", kDriver}}));
  struct stat info;
  ASSERT_EQ(stat(Path(kDevice + "/globalmount").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0750u);

  const auto published = Publish(spec);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->path, Path(kPodVolume + "/mount"));
  EXPECT_FALSE(published->block);
  const auto publish = Last<PublishRequest>("NodePublishVolume");
  EXPECT_EQ(publish.volume_id(), "vol-1");
  EXPECT_EQ(publish.staging_target_path(), Path(kDevice + "/globalmount"));
  EXPECT_EQ(publish.target_path(), Path(kPodVolume + "/mount"));
  EXPECT_FALSE(publish.readonly());
  EXPECT_THAT(publish.publish_context(), UnorderedElementsAre(Pair("device", "/dev/xvdb")));
  EXPECT_THAT(publish.volume_context(), UnorderedElementsAre(Pair("pool", "fast")));
  EXPECT_THAT(publish.volume_capability().mount().mount_flags(), ElementsAre("noatime"));
  EXPECT_EQ(ReadJson(kPodVolume + "/vol_data.json"),
            (Json{{"specVolID", "pv-1"},
                  {"volumeHandle", "vol-1"},
                  {"driverName", kDriver},
                  {"nodeName", "node-a"},
                  {"attachmentID", api::VolumeAttachmentName(api::VolumeHandle("vol-1"), kDriver,
                                                             api::NodeName("node-a"))},
                  {"volumeLifecycleMode", "Persistent"}}));

  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(spec)).ok());
  EXPECT_FALSE(Exists(kPodVolume));
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(spec)).ok());
  EXPECT_FALSE(Exists(kDevice));
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume", "NodePublishVolume",
                                       "NodeUnpublishVolume", "NodeUnstageVolume"));
  EXPECT_EQ(driver_->script().Count("NodeGetCapabilities"), 1);
}

TEST_F(MountVolumesTest, TearDownThatReachedItsEndCallsTheDriverNoMore) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
    EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  }
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
}

TEST_F(MountVolumesTest, TheRecordIsOnDiskBeforeTheDriverIsCalled) {
  driver_->script().AfterEffect("NodeStageVolume", [&](const google::protobuf::Message&) {
    EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
    return base::OkStatus();
  });
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
    host_.fake_mounter().Add(Path(kPodVolume + "/mount"));
    return base::OkStatus();
  });
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
}

TEST_F(MountVolumesTest, ATargetWhereNothingIsMountedIsRefusedAndTakenBack) {
  ASSERT_TRUE(Stage().ok());
  driver_->script().AfterEffect("NodePublishVolume",
                                [](const google::protobuf::Message&) { return base::OkStatus(); });
  const Status published = Publish().status();
  EXPECT_EQ(published.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(published), HasSubstr("nothing is mounted"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
}

// A driver of S3 buckets cannot mount read-only, and pods with a read-only use of them start under
// a kubelet.
TEST_F(MountVolumesTest, AWritableMountInPlaceOfAReadOnlyOneIsMadeReadOnly) {
  const VolumeSpec spec = Persistent({{"csi", {{"readOnly", true}}}});
  const std::string target = Path(kPodVolume + "/mount");
  ASSERT_TRUE(Stage(spec).ok());
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    host_.fake_mounter().Add(target, "fuse", "bucket", {"rw", "nosuid", "nodev"});
    return base::OkStatus();
  });
  const auto published = Publish(spec);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_TRUE(published->read_only);
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 0);
  ASSERT_FALSE(host_.fake_mounter().requests().empty());
  EXPECT_THAT(host_.fake_mounter().requests().back().options,
              ElementsAre("remount", "bind", "ro", "nosuid", "nodev"));
}

TEST_F(MountVolumesTest, AWritableMountThatStaysWritableIsRefusedAndTakenBack) {
  const VolumeSpec spec = Persistent({{"csi", {{"readOnly", true}}}});
  const std::string target = Path(kPodVolume + "/mount");
  ASSERT_TRUE(Stage(spec).ok());
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    host_.fake_mounter().Add(target);
    host_.fake_mounter().Fail(target, base::Error(StatusCode::kInternal, "no such remount"));
    return base::OkStatus();
  });
  EXPECT_THAT(MessageOf(Publish(spec).status()), HasSubstr("no such remount"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
}

TEST_F(MountVolumesTest, TheFilesOfAnotherVolumeAreRefusedUnlessTheyMayBeShared) {
  MountOfAnother();
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(staged), HasSubstr("is volume 'vol-2'"));
  EXPECT_TRUE(Stage(Persistent({{"accessModes", {"ReadWriteMany"}}})).ok());
}

TEST_F(MountVolumesTest, WhatIsInUseIsNotTakenBack) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  MountOfAnother();
  EXPECT_FALSE(Publish().ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 0);
}

TEST_F(MountVolumesTest, ADriverWithoutStagesGetsNoStagingPath) {
  driver_->state().options().node_capabilities.clear();
  ASSERT_TRUE(Stage().ok());
  EXPECT_FALSE(Exists(kDevice));
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(Last<PublishRequest>("NodePublishVolume").staging_target_path(), "");
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_THAT(NodeCalls(), ElementsAre("NodePublishVolume", "NodeUnpublishVolume"));
}

TEST_F(MountVolumesTest, AFinalFailureLeavesNothingBehind) {
  driver_->script().Fail("NodeStageVolume", base::Status(StatusCode::kInternal, "bad disk"));
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kInternal);
  EXPECT_EQ(MessageOf(staged), "stage volume 'pv-1': NodeStageVolume: bad disk");
  EXPECT_FALSE(Exists(kDevice));

  ASSERT_TRUE(Stage().ok());
  driver_->script().Fail("NodePublishVolume", base::Status(StatusCode::kNotFound, "gone"));
  EXPECT_EQ(Publish().status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(Exists(kPodVolume));
  // Nothing was published, so that there is nothing to take back.
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 0);
}

TEST_F(MountVolumesTest, AnUnknownOutcomeIsKeptAndTakenBack) {
  driver_->script().LoseAnswer("NodeStageVolume");
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
  ASSERT_TRUE(Stage().ok());
  driver_->script().LoseAnswer("NodePublishVolume");
  EXPECT_EQ(Publish().status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
  EXPECT_FALSE(Exists(kDevice));
}

TEST_F(MountVolumesTest, AFinalFailureAfterAnUnknownOneTakesNothingAway) {
  // The first call still works in the driver: its mount does not show yet.
  driver_->script().AfterEffect("NodePublishVolume", nullptr);
  driver_->script().LoseAnswer("NodePublishVolume");
  ASSERT_TRUE(Stage().ok());
  EXPECT_EQ(Publish().status().code(), StatusCode::kUnavailable);
  driver_->script().Fail("NodePublishVolume", base::Status(StatusCode::kInternal, "no"));
  EXPECT_EQ(Publish().status().code(), StatusCode::kInternal);
  EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
}

TEST_F(MountVolumesTest, AStageOfUnknownOutcomeIsKeptWhileItsMountDoesNotShow) {
  driver_->script().AfterEffect("NodeStageVolume", nullptr);
  driver_->script().LoseAnswer("NodeStageVolume");
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
  driver_->script().Fail("NodeStageVolume", base::Status(StatusCode::kInternal, "no"));
  EXPECT_EQ(Stage().code(), StatusCode::kInternal);
  EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
}

TEST_F(MountVolumesTest, ARepublishThatFailsLeavesTheVolumePublished) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  driver_->script().Fail("NodePublishVolume", base::Status(StatusCode::kInternal, "no"));
  EXPECT_FALSE(Publish().ok());
  EXPECT_TRUE(Exists(kPodVolume + "/mount"));
  EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
}

TEST_F(MountVolumesTest, AnUnstageThatFailsKeepsTheRecord) {
  ASSERT_TRUE(Stage().ok());
  driver_->script().Fail("NodeUnstageVolume", base::Status(StatusCode::kInternal, "busy"));
  EXPECT_EQ(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).code(), StatusCode::kInternal);
  EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
}

// The node died after the driver had released the volume, and the volume was deleted before the
// node asked again.
TEST_F(MountVolumesTest, ADeletedVolumeCountsAsReleased) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  const auto release = [&](const std::string& method) {
    driver_->script().Fail(method, base::Status(StatusCode::kNotFound, "no such volume"));
    return method == "NodeUnpublishVolume" ? plugin_->TearDown(PodRecordOf(Persistent()))
                                           : plugin_->UnmountDevice(DeviceRecordOf(Persistent()));
  };
  for (const auto& [method, folder] :
       {std::pair("NodeUnpublishVolume", kPodVolume), std::pair("NodeUnstageVolume", kDevice)}) {
    // A driver that has lost its state does not know the volume either.
    EXPECT_THAT(MessageOf(release(method)), HasSubstr("is still a mount point"));
    EXPECT_TRUE(Exists(folder + "/vol_data.json"));
    const std::string path = folder + (folder == kDevice ? "/globalmount" : "/mount");
    ASSERT_TRUE(host_.fake_mounter().Unmount(Path(path)).ok());
    EXPECT_TRUE(release(method).ok());
    EXPECT_FALSE(Exists(folder));
  }
}

TEST_F(MountVolumesTest, AStagedFolderOfAnotherVolumeIsRefused) {
  ASSERT_TRUE(Stage().ok());
  WriteJson(kDevice + "/vol_data.json", {{"volumeHandle", "vol-9"}, {"driverName", kDriver}});
  for (const Status& status :
       {Stage(), Publish().status(), plugin_->UnmountDevice(DeviceRecordOf(Persistent()))}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(status), HasSubstr("belongs to volume 'vol-9'"));
  }
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume"));
  EXPECT_TRUE(host_.fake_mounter().IsMounted(Path(kDevice + "/globalmount")));
}

TEST_F(MountVolumesTest, AMountWithoutARecordIsRefused) {
  host_.fake_mounter().Add(Path(kDevice + "/globalmount"), "xfs", "/dev/sdz");
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(staged), HasSubstr("xfs from '/dev/sdz' is mounted at"));
  EXPECT_THAT(NodeCalls(), IsEmpty());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kDevice + "/globalmount")).ok());

  ASSERT_TRUE(Stage().ok());
  host_.fake_mounter().Add(Path(kPodVolume + "/mount"));
  EXPECT_EQ(Publish().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(plugin_->TearDown(PodRecordOf(Persistent())).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume"));
}

TEST_F(MountVolumesTest, ADamagedRecordIsRefusedUnderAMountAndReplacedWithout) {
  ASSERT_TRUE(Stage().ok());
  std::ofstream(Path(kDevice + "/vol_data.json")) << "{";
  EXPECT_EQ(Stage().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kDevice + "/globalmount")).ok());
  EXPECT_TRUE(Stage().ok());
  EXPECT_EQ(ReadJson(kDevice + "/vol_data.json")["volumeHandle"], "vol-1");
}

// A driver may stage without a mount (iSCSI, LUKS, nbd): that nothing is mounted does not say that
// the node let go of the volume.
TEST_F(MountVolumesTest, ADamagedRecordDoesNotKeepTheDriverFromTearDown) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPodVolume + "/mount")).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kDevice + "/globalmount")).ok());
  std::ofstream(Path(kPodVolume + "/vol_data.json")) << "{";
  std::ofstream(Path(kDevice + "/vol_data.json")) << "{";
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  EXPECT_EQ(Last<csi::v1::NodeUnpublishVolumeRequest>("NodeUnpublishVolume").volume_id(), "vol-1");
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_EQ(Last<csi::v1::NodeUnstageVolumeRequest>("NodeUnstageVolume").volume_id(), "vol-1");
  EXPECT_FALSE(Exists(kDevice));
  EXPECT_FALSE(Exists(kPodVolume));
}

TEST_F(MountVolumesTest, ARecordThatCannotBeReadNowIsNoDamage) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  for (const std::string& folder : {kPodVolume, kDevice}) {
    const auto tear_down = [&] {
      return folder == kDevice ? plugin_->UnmountDevice(DeviceRecordOf(Persistent()))
                               : plugin_->TearDown(PodRecordOf(Persistent()));
    };
    const std::string target = folder + (folder == kDevice ? "/globalmount" : "/mount");
    ASSERT_TRUE(host_.fake_mounter().Unmount(Path(target)).ok());
    HideRecord(folder);
    const Status unread = tear_down();
    EXPECT_FALSE(unread.ok());
    EXPECT_THAT(MessageOf(unread), HasSubstr("vol_data.json"));
    EXPECT_TRUE(Exists(folder + "/vol_data.json"));
    ShowRecord(folder);
    EXPECT_TRUE(tear_down().ok());
    EXPECT_FALSE(Exists(folder));
  }
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
}

TEST_F(MountVolumesTest, OfAnEarlierBootNothingIsLeftWithoutTheDriver) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  const DeviceRecord device = DeviceRecordOf(Persistent());
  const PodVolumeRecord use = PodRecordOf(Persistent());
  EXPECT_EQ(plugin_->ForgetDevice(device).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(plugin_->ForgetPodVolume(use).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPodVolume + "/mount")).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kDevice + "/globalmount")).ok());
  driver_->GoAway();
  std::ofstream(Path(kPodVolume + "/mount/precious")) << "data";
  EXPECT_EQ(plugin_->ForgetPodVolume(use).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Exists(kPodVolume + "/mount/precious"));
  std::filesystem::remove(Path(kPodVolume + "/mount/precious"));
  EXPECT_TRUE(plugin_->ForgetPodVolume(use).ok());
  EXPECT_TRUE(plugin_->ForgetDevice(device).ok());
  EXPECT_FALSE(Exists(kPodVolume));
  EXPECT_FALSE(Exists(kDevice));
  EXPECT_TRUE(plugin_->FindOnNode()->devices.empty());
  EXPECT_TRUE(plugin_->FindOnNode()->pod_volumes.empty());
}

TEST_F(MountVolumesTest, AVolumeThatIsNotStagedIsNotPublished) {
  const Status published = Publish().status();
  EXPECT_EQ(published.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(published), HasSubstr("is not staged"));
  EXPECT_THAT(NodeCalls(), IsEmpty());
}

TEST_F(MountVolumesTest, AMountThatOutlivesUnpublishIsNamedAndItsFilesStay) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  host_.fake_mounter().Add(Path(kPodVolume + "/mount"), "ext4", "/dev/loop9");  // a second one
  const Status status = plugin_->TearDown(PodRecordOf(Persistent()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status),
              HasSubstr(Path(kPodVolume + "/mount") + "' is still a mount point"));
  EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
}

TEST_F(MountVolumesTest, DataInTheTargetsPlaceIsNotRemoved) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  std::ofstream(Path(kPodVolume + "/mount/precious")) << "data";
  const Status status = plugin_->TearDown(PodRecordOf(Persistent()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("not empty"));
  EXPECT_TRUE(Exists(kPodVolume + "/mount/precious"));
}

TEST_F(MountVolumesTest, ADriverThatIsNotRegisteredIsWaitedFor) {
  host_.drivers().Unregister(std::string(kDriver));
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(Exists(kDevice));
}

TEST_F(MountVolumesTest, ADriverThatCameBackIsAskedAnewWhatItCan) {
  ASSERT_TRUE(Stage().ok());
  driver_->GoAway();
  EXPECT_EQ(Publish().status().code(), StatusCode::kUnavailable);
  driver_->state().options().node_capabilities.insert(NodeRpc::SINGLE_NODE_MULTI_WRITER);
  ASSERT_TRUE(driver_->ComeBack().ok());
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(Last<PublishRequest>("NodePublishVolume").volume_capability().access_mode().mode(),
            Mode::SINGLE_NODE_MULTI_WRITER);
}

TEST_F(MountVolumesTest, AVolumeGrowsOnTheNode) {
  const VolumeSpec spec = Persistent({{"mountOptions", {"noatime"}}});
  ASSERT_TRUE(Stage(spec).ok());
  ASSERT_TRUE(Publish(spec).ok());
  ASSERT_TRUE(plugin_->Expand(PodRecordOf(spec), spec, 4096).ok());
  const auto request = Last<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume");
  EXPECT_EQ(request.volume_path(), Path(kPodVolume + "/mount"));
  EXPECT_EQ(request.staging_target_path(), Path(kDevice + "/globalmount"));
  EXPECT_EQ(request.capacity_range().required_bytes(), 4096);
  EXPECT_EQ(request.volume_capability().mount().fs_type(), "ext4");
  EXPECT_THAT(request.volume_capability().mount().mount_flags(), ElementsAre("noatime"));
  const VolumeSpec other = Persistent({{"csi", {{"volumeHandle", "vol-2"}}}});
  EXPECT_EQ(plugin_->Expand(PodRecordOf(spec), other, 4096).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(MountVolumesTest, ACallThatHangsEndsWithTheProcess) {
  driver_->script().Hang("NodeStageVolume");
  std::jthread stager([&] { EXPECT_EQ(Stage().code(), StatusCode::kCancelled); });
  ASSERT_TRUE(driver_->script().WaitFor("NodeStageVolume"));
  plugin_->CancelCalls();
  stager.join();
  EXPECT_TRUE(Exists(kDevice + "/vol_data.json"));
  EXPECT_EQ(Stage().code(), StatusCode::kCancelled);
}

TEST_F(MountVolumesTest, WhatTheDriverCannotIsUnimplemented) {
  driver_->state().options().node_capabilities = {NodeRpc::STAGE_UNSTAGE_VOLUME};
  EXPECT_EQ(plugin_->Expand(PodRecordOf(Persistent()), Persistent(), 1).code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(plugin_->GetStats(PodRecordOf(Persistent())).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_THAT(NodeCalls(), IsEmpty());
}

TEST_F(MountVolumesTest, StatsAreTheDrivers) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  const auto stats = plugin_->GetStats(PodRecordOf(Persistent()));
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->total_bytes, 1000);
  EXPECT_EQ(stats->used_bytes, 400);
  EXPECT_EQ(stats->available_bytes, 600);
  EXPECT_EQ(stats->total_inodes, 100);
  const auto request = Last<csi::v1::NodeGetVolumeStatsRequest>("NodeGetVolumeStats");
  EXPECT_EQ(request.volume_path(), Path(kPodVolume + "/mount"));
  EXPECT_EQ(request.staging_target_path(), "");
}

TEST_F(MountVolumesTest, RecordsOfADeadProcessesWritingGoToo) {
  ASSERT_TRUE(Stage().ok());
  std::ofstream(Path(kDevice + "/.vol_data.json.tmp-a1b2c3")) << "{";
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_FALSE(Exists(kDevice));
}

TEST_F(MountVolumesTest, AVolumesConditionIsTheDriversIfItHasOne) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  driver_->state().options().abnormal = "a disk fails";
  auto condition = plugin_->GetCondition(PodRecordOf(Persistent()));
  ASSERT_TRUE(condition.ok()) << condition.status();
  EXPECT_FALSE(condition->has_value());
  driver_->state().options().node_capabilities.insert(NodeRpc::VOLUME_CONDITION);
  plugin_ = NewCsiPlugin(host_);  // capabilities are asked for once
  condition = plugin_->GetCondition(PodRecordOf(Persistent()));
  ASSERT_TRUE(condition.ok()) << condition.status();
  ASSERT_TRUE(condition->has_value());
  EXPECT_TRUE((*condition)->abnormal);
  EXPECT_EQ((*condition)->message, "a disk fails");
}

}  // namespace
}  // namespace berth::volume
