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
const std::string kDevice = kBlock + "publish/pv-1/11111111-2222-3333-4444-555555555555";
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
                  {"attachmentID", api::VolumeAttachmentName("vol-1", kDriver, "node-a")}}));

  const auto published = plugin_->SetUp(Pod(), Block(), {{"device", "/dev/xvdb"}});
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_TRUE(published->block);
  EXPECT_EQ(published->path, Path(kDevice));
  EXPECT_EQ(std::filesystem::read_symlink(Path(kLink)), Path(kDevice));
  const auto publish = Last<PublishRequest>("NodePublishVolume");
  EXPECT_EQ(publish.target_path(), Path(kDevice));
  EXPECT_EQ(publish.staging_target_path(), Path(kStaging));
  EXPECT_EQ(publish.publish_context().at("device"), "/dev/xvdb");
  EXPECT_TRUE(publish.volume_capability().has_block());

  ASSERT_TRUE(plugin_->Expand(PodRecordOf(Block()), Block(), 8192).ok());
  const auto expand = Last<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume");
  EXPECT_EQ(expand.volume_path(), Path(kDevice));
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

TEST_F(BlockVolumesTest, TwoPodsShareADevice) {
  ASSERT_TRUE(Stage().ok());
  api::Pod other = Pod();
  other.Set({"metadata", "uid"}, "22222222-2222-3333-4444-555555555555");
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  ASSERT_TRUE(plugin_->SetUp(other, Block(), {}).ok());
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(Block())).ok());
  EXPECT_FALSE(Exists(kDevice));
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

TEST_F(BlockVolumesTest, AMountThatOutlivesUnpublishIsNamed) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), Block(), {}).ok());
  host_.fake_mounter().Add(Path(kDevice), "devtmpfs", "udev");
  const Status status = plugin_->TearDown(PodRecordOf(Block()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(status)), HasSubstr(Path(kDevice)));
  EXPECT_TRUE(Exists(kLink));
}

}  // namespace
}  // namespace berth::volume
