// Raw block volumes through the plugin.
#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using PublishRequest = csi::v1::NodePublishVolumeRequest;

const std::string kBlock = "plugins/kubernetes.io/csi/volumeDevices/";
const std::string kData = kBlock + "pv-1/data";
const std::string kStaging = kBlock + "staging/pv-1";
const std::string kPublished = kBlock + "publish/pv-1/11111111-2222-3333-4444-555555555555";
const std::string kLink =
    "pods/11111111-2222-3333-4444-555555555555/volumeDevices/kubernetes.io~csi/pv-1";

class BlockVolumesTest : public CsiFixture {
 protected:
  static VolumeSpec Block(const Json& changes = Json::object()) {
    Json all = {{"volumeMode", "Block"}, {"mountOptions", {"noatime"}}};
    all.merge_patch(changes);
    return Persistent(all);
  }
  Status Stage(const VolumeSpec& spec = Block()) {
    return plugin_->MountDevice(Pod(), spec, {{"device", "/dev/xvdb"}});
  }
};

TEST_F(BlockVolumesTest, ADeviceIsStagedPublishedAndTornDown) {
  ASSERT_TRUE(Stage().ok());
  const auto stage = Last<csi::v1::NodeStageVolumeRequest>("NodeStageVolume");
  EXPECT_EQ(stage.staging_target_path(), Path(kStaging));
  EXPECT_TRUE(stage.volume_capability().has_block());
  EXPECT_EQ(ReadJson(kData + "/vol_data.json"),
            (Json{{"specVolID", "pv-1"},
                  {"volumeHandle", "vol-1"},
                  {"driverName", kDriver},
                  {"nodeName", "node-a"},
                  {"attachmentID", api::VolumeAttachmentName(api::VolumeHandle("vol-1"), kDriver,
                                                             api::NodeName("node-a"))}}));

  const auto published = plugin_->SetUp(Pod(), Block(), {{"device", "/dev/xvdb"}});
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_TRUE(published->block);
  EXPECT_EQ(published->path, Path(kPublished));
  EXPECT_EQ(std::filesystem::read_symlink(Path(kLink)), Path(kPublished));
  const auto publish = Last<PublishRequest>("NodePublishVolume");
  EXPECT_EQ(publish.target_path(), Path(kPublished));
  EXPECT_EQ(publish.staging_target_path(), Path(kStaging));
  EXPECT_EQ(publish.publish_context().at("device"), "/dev/xvdb");
  EXPECT_TRUE(publish.volume_capability().has_block());

  ASSERT_TRUE(plugin_->Expand(PodRecordOf(Block()), Block(), 8192).ok());
  const auto expand = Last<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume");
  EXPECT_EQ(expand.volume_path(), Path(kPublished));
  EXPECT_EQ(expand.staging_target_path(), Path(kStaging));
  EXPECT_TRUE(expand.volume_capability().has_block());

  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kLink));
  EXPECT_FALSE(Exists(kBlock + "publish/pv-1"));
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume", "NodePublishVolume", "NodeExpandVolume",
                                       "NodeUnpublishVolume", "NodeUnstageVolume"));
}

TEST_F(BlockVolumesTest, ADeletedVolumeCountsAsReleased) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPublished)).ok());
  const base::Status gone(StatusCode::kNotFound, "no such volume");
  driver_->script().Fail("NodeUnpublishVolume", gone);
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kLink));
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kStaging)).ok());
  driver_->script().Fail("NodeUnstageVolume", gone);
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
}

TEST_F(BlockVolumesTest, TwoPodsShareADevice) {
  ASSERT_TRUE(Stage().ok());
  api::Pod other = Pod();
  other.Set({"metadata", "uid"}, "22222222-2222-3333-4444-555555555555");
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  ASSERT_TRUE(plugin_->SetUp(other, Block(), {}).ok());
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kPublished));
  EXPECT_TRUE(Exists(kBlock + "publish/pv-1/" + other.uid()));
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Block(), other)).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
}

TEST_F(BlockVolumesTest, ADriverWithoutStagesGetsTheStagingPathOnPublish) {
  driver_->state().options().node_capabilities.clear();
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  EXPECT_EQ(Last<PublishRequest>("NodePublishVolume").staging_target_path(), Path(kStaging));
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_THAT(NodeCalls(), ElementsAre("NodePublishVolume", "NodeUnpublishVolume"));
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
}

TEST_F(BlockVolumesTest, AFinalFailureLeavesNothingBehind) {
  driver_->script().Fail("NodeStageVolume", base::Status(StatusCode::kInternal, "bad disk"));
  EXPECT_EQ(Stage().code(), StatusCode::kInternal);
  EXPECT_FALSE(Exists(kStaging));
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
  ASSERT_TRUE(Stage().ok());
  driver_->script().Fail("NodePublishVolume", base::Status(StatusCode::kInternal, "bad disk"));
  EXPECT_FALSE(plugin_->SetUp(Pod(), Block(), {}).ok());
  EXPECT_FALSE(Exists(kBlock + "publish/pv-1"));
  EXPECT_FALSE(Exists(kLink));
}

TEST_F(BlockVolumesTest, AnUnknownOutcomeIsTakenBack) {
  driver_->script().LoseAnswer("NodeStageVolume");
  EXPECT_EQ(Stage().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Exists(kData + "/vol_data.json"));
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
}

// A PV may be made anew under the same name for another volume while the old one is still in use
// here.
TEST_F(BlockVolumesTest, AnotherVolumeUnderTheSamePvNameIsRefused) {
  ASSERT_TRUE(Stage().ok());
  const VolumeSpec other = Block({{"csi", {{"volumeHandle", "vol-2"}}}});
  for (const Status& status :
       {Stage(other), plugin_->SetUp(Pod(), other, {}).status(),
        plugin_->TearDown(PodRecordOf(other)), plugin_->UnmountDevice(DeviceRecordOf(other))}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(base::Message(status)), HasSubstr("belongs to volume 'vol-1'"));
  }
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume"));
}

TEST_F(BlockVolumesTest, ADeviceThatIsNotStagedIsNotPublished) {
  EXPECT_EQ(plugin_->SetUp(Pod(), Block(), {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(NodeCalls().empty());
}

TEST_F(BlockVolumesTest, ATargetThatIsNoBlockDeviceIsRefusedAndTakenBack) {
  ASSERT_TRUE(Stage().ok());
  // The driver's double leaves a plain file, as a driver would whose bind mount went wrong.
  driver_->script().AfterEffect("NodePublishVolume",
                                [](const google::protobuf::Message&) { return base::OkStatus(); });
  const Status refused = plugin_->SetUp(Pod(), Block(), {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("no block device"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_FALSE(Exists(kLink));

  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    std::filesystem::remove(Path(kPublished));
    return base::OkStatus();
  });
  EXPECT_THAT(std::string(base::Message(plugin_->SetUp(Pod(), Block(), {}).status())),
              HasSubstr("there is nothing at"));
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
}

TEST_F(BlockVolumesTest, TheDeviceOfAnotherVolumeIsRefusedUnlessItMayBeShared) {
  const VolumeSpec spec = Persistent({{"volumeMode", "Block"}});
  VolumeSpec other = Persistent({{"volumeMode", "Block"}, {"csi", {{"volumeHandle", "vol-2"}}}});
  other.pv = std::make_shared<api::PersistentVolume>(
      Json{{"metadata", {{"name", "pv-2"}}}, {"spec", other.pv->json()["spec"]}});
  const auto publishes = [&](dev_t number) {
    driver_->script().AfterEffect(
        "NodePublishVolume", [this, number](const google::protobuf::Message& message) {
          host_.SetDevice(dynamic_cast<const PublishRequest&>(message).target_path(), number);
          return base::OkStatus();
        });
  };
  ASSERT_TRUE(Stage(spec).ok());
  ASSERT_TRUE(Stage(other).ok());
  publishes(7);
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  const Status refused = plugin_->SetUp(Pod(), other, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("is volume 'vol-1'"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_TRUE(Exists(kPublished));
  publishes(8);
  EXPECT_TRUE(plugin_->SetUp(Pod(), other, {}).ok());

  // What a pod uses already is not taken away from it.
  publishes(7);
  EXPECT_FALSE(plugin_->SetUp(Pod(), other, {}).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
}

TEST_F(BlockVolumesTest, AReadOnlyUseIsReadOnlyInTheContainer) {
  ASSERT_TRUE(Stage().ok());
  EXPECT_FALSE(plugin_->SetUp(Pod(), Block(), {})->read_only);
  EXPECT_TRUE(plugin_->SetUp(Pod(), Block({{"csi", {{"readOnly", true}}}}), {})->read_only);
}

// Raw block volumes are not mounted where they are staged: nothing but the driver's call lets go of
// the device.
TEST_F(BlockVolumesTest, ADamagedRecordDoesNotKeepTheDriverFromTearDown) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPublished)).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kStaging)).ok());
  std::ofstream(Path(kData + "/vol_data.json")) << "{";
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
  EXPECT_FALSE(Exists(kBlock + "pv-1"));
}

TEST_F(BlockVolumesTest, ARecordThatCannotBeReadNowIsNoDamage) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPublished)).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kStaging)).ok());
  HideRecord(kData);
  EXPECT_FALSE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_FALSE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_TRUE(Exists(kPublished));
  ShowRecord(kData);
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Block())).ok());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_EQ(driver_->script().Count("NodeUnstageVolume"), 1);
}

TEST_F(BlockVolumesTest, OfAnEarlierBootNothingIsLeftWithoutTheDriver) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  const DeviceRecord device = DeviceRecordOf(Block());
  const PodVolumeRecord use = PodRecordOf(Block());
  EXPECT_EQ(plugin_->ForgetPodVolume(use).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kPublished)).ok());
  ASSERT_TRUE(host_.fake_mounter().Unmount(Path(kStaging)).ok());
  driver_->GoAway();
  EXPECT_TRUE(plugin_->ForgetPodVolume(use).ok());
  EXPECT_FALSE(Exists(kBlock + "publish/pv-1"));
  EXPECT_FALSE(Exists(kLink));
  EXPECT_TRUE(plugin_->ForgetDevice(device).ok());
  EXPECT_TRUE(plugin_->FindOnNode()->devices.empty());
  EXPECT_TRUE(plugin_->FindOnNode()->pod_volumes.empty());
}

TEST_F(BlockVolumesTest, AMountThatOutlivesUnpublishIsNamed) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  host_.fake_mounter().Add(Path(kPublished), "devtmpfs", "udev");
  const Status status = plugin_->TearDown(PodRecordOf(Block()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(status)), HasSubstr(Path(kPublished)));
  EXPECT_TRUE(Exists(kLink));
}

}  // namespace
}  // namespace berth::volume
