// File-system volumes through the plugin, with the driver's and the host's doubles.
#include <sys/stat.h>

#include <thread>

#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;
using Mode = csi::v1::VolumeCapability::AccessMode;
using StageRequest = csi::v1::NodeStageVolumeRequest;
using PublishRequest = csi::v1::NodePublishVolumeRequest;

// SHA-256 of "vol-1".
const std::string kDevice =
    "plugins/kubernetes.io/csi/fake.csi.example.com/"
    "d2e8363faaac7ae76def3b14091d8eb5755f6b92e9531627aeec833a8731cc49";
const std::string kPodVolume =
    "pods/11111111-2222-3333-4444-555555555555/volumes/kubernetes.io~csi/pv-1";

std::string Text(const Status& status) { return std::string(base::Message(status)); }

class MountVolumesTest : public CsiFixture {
 protected:
  Status Stage(const VolumeSpec& spec = Persistent(), const api::Pod& pod = Pod()) {
    return plugin_->MountDevice(pod, spec, {{"device", "/dev/xvdb"}});
  }
  StatusOr<Published> Publish(const VolumeSpec& spec = Persistent(), const api::Pod& pod = Pod()) {
    return plugin_->SetUp(pod, spec, {{"device", "/dev/xvdb"}});
  }
  // Another volume's mount point shows the files of "vol-1".
  void MountOfAnother() {
    const std::string folder = "pods/other/volumes/kubernetes.io~csi/pv-2";
    ASSERT_TRUE(platform::MakeFolders(Path(folder)).ok());
    WriteJson(folder + "/vol_data.json", {{"driverName", kDriver}, {"volumeHandle", "vol-2"}});
    host_.fake_mounter().Add(Path(folder + "/mount"), "ext4", "/dev/vol-1");
  }
};

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
                  {"attachmentID", api::VolumeAttachmentName("vol-1", kDriver, "node-a")},
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
  EXPECT_THAT(Text(published), HasSubstr("nothing is mounted"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
}

TEST_F(MountVolumesTest, AWritableMountInPlaceOfAReadOnlyOneIsRefused) {
  const VolumeSpec spec = Persistent({{"csi", {{"readOnly", true}}}});
  ASSERT_TRUE(Stage(spec).ok());
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    host_.fake_mounter().Add(Path(kPodVolume + "/mount"));
    return base::OkStatus();
  });
  EXPECT_THAT(Text(Publish(spec).status()), HasSubstr("writable"));
}

TEST_F(MountVolumesTest, TheFilesOfAnotherVolumeAreRefusedUnlessTheyMayBeShared) {
  MountOfAnother();
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(staged), HasSubstr("is volume 'vol-2'"));
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

TEST_F(MountVolumesTest, SecretsAreReadAndNeverStored) {
  PutSecret("vault", "stage", {{"key", "aHVudGVyMg=="}});
  PutSecret("vault", "publish", {{"user", "YWRtaW4="}});
  const VolumeSpec spec =
      Persistent({{"csi",
                   {{"nodeStageSecretRef", {{"namespace", "vault"}, {"name", "stage"}}},
                    {"nodePublishSecretRef", {{"namespace", "vault"}, {"name", "publish"}}}}}});
  ASSERT_TRUE(Stage(spec).ok());
  ASSERT_TRUE(Publish(spec).ok());
  EXPECT_THAT(Last<StageRequest>("NodeStageVolume").secrets(),
              UnorderedElementsAre(Pair("key", "hunter2")));
  EXPECT_THAT(Last<PublishRequest>("NodePublishVolume").secrets(),
              UnorderedElementsAre(Pair("user", "admin")));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    const auto text = platform::ReadFile(entry.path());
    ASSERT_TRUE(text.ok());
    EXPECT_THAT(*text, testing::Not(HasSubstr("hunter2"))) << entry.path();
    EXPECT_THAT(*text, testing::Not(HasSubstr("admin"))) << entry.path();
  }
  EXPECT_THAT(plugin_->PodState(Pod(), spec)->dump(), testing::Not(HasSubstr("admin")));
}

TEST_F(MountVolumesTest, ASecretThatIsMissingOrNotTextIsNamed) {
  const VolumeSpec spec =
      Persistent({{"csi", {{"nodeStageSecretRef", {{"namespace", "vault"}, {"name", "stage"}}}}}});
  const Status missing = Stage(spec);
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(Text(missing), HasSubstr("vault/stage"));
  PutSecret("vault", "stage", {{"key", "/////w=="}});
  const Status binary = Stage(spec);
  EXPECT_EQ(binary.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(binary), HasSubstr("'key' is not text"));
  EXPECT_THAT(NodeCalls(), IsEmpty());
  EXPECT_FALSE(Exists(kDevice));
}

TEST_F(MountVolumesTest, AFinalFailureLeavesNothingBehind) {
  driver_->script().Fail("NodeStageVolume", base::Status(StatusCode::kInternal, "bad disk"));
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kInternal);
  EXPECT_EQ(Text(staged), "stage volume 'pv-1': NodeStageVolume: bad disk");
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

TEST_F(MountVolumesTest, AStagedFolderOfAnotherVolumeIsRefused) {
  ASSERT_TRUE(Stage().ok());
  WriteJson(kDevice + "/vol_data.json", {{"volumeHandle", "vol-9"}, {"driverName", kDriver}});
  for (const Status& status :
       {Stage(), Publish().status(), plugin_->UnmountDevice(DeviceRecordOf(Persistent()))}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(status), HasSubstr("belongs to volume 'vol-9'"));
  }
  EXPECT_THAT(NodeCalls(), ElementsAre("NodeStageVolume"));
  EXPECT_TRUE(host_.fake_mounter().IsMounted(Path(kDevice + "/globalmount")));
}

TEST_F(MountVolumesTest, AMountWithoutARecordIsRefused) {
  host_.fake_mounter().Add(Path(kDevice + "/globalmount"), "xfs", "/dev/sdz");
  const Status staged = Stage();
  EXPECT_EQ(staged.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(staged), HasSubstr("xfs from '/dev/sdz' is mounted at"));
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
    EXPECT_THAT(Text(unread), HasSubstr("vol_data.json"));
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
  EXPECT_THAT(Text(published), HasSubstr("is not staged"));
  EXPECT_THAT(NodeCalls(), IsEmpty());
}

TEST_F(MountVolumesTest, AMountThatOutlivesUnpublishIsNamedAndItsFilesStay) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  host_.fake_mounter().Add(Path(kPodVolume + "/mount"), "ext4", "/dev/loop9");  // a second one
  const Status status = plugin_->TearDown(PodRecordOf(Persistent()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr(Path(kPodVolume + "/mount") + "' is still a mount point"));
  EXPECT_TRUE(Exists(kPodVolume + "/vol_data.json"));
}

TEST_F(MountVolumesTest, DataInTheTargetsPlaceIsNotRemoved) {
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  std::ofstream(Path(kPodVolume + "/mount/precious")) << "data";
  const Status status = plugin_->TearDown(PodRecordOf(Persistent()));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(status), HasSubstr("not empty"));
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

TEST_F(MountVolumesTest, ReadOnlyComesFromTheVolumeOrItsUse) {
  ASSERT_TRUE(Stage().ok());
  VolumeSpec spec = Persistent();
  spec.read_only = true;
  ASSERT_TRUE(Publish(spec).ok());
  EXPECT_TRUE(Last<PublishRequest>("NodePublishVolume").readonly());
  ASSERT_TRUE(Publish(Persistent({{"csi", {{"readOnly", true}}}})).ok());
  EXPECT_TRUE(Last<PublishRequest>("NodePublishVolume").readonly());
}

TEST_F(MountVolumesTest, TheDriverHearsOfThePodWhereItAsks) {
  PutDriver({{"podInfoOnMount", true}});
  ASSERT_TRUE(Stage().ok());
  EXPECT_THAT(Last<StageRequest>("NodeStageVolume").volume_context(), IsEmpty());
  ASSERT_TRUE(Publish().ok());
  EXPECT_THAT(Last<PublishRequest>("NodePublishVolume").volume_context(),
              UnorderedElementsAre(Pair("csi.storage.k8s.io/pod.name", "web"),
                                   Pair("csi.storage.k8s.io/pod.namespace", "shop"),
                                   Pair("csi.storage.k8s.io/pod.uid", std::string(kPodUid)),
                                   Pair("csi.storage.k8s.io/serviceAccount.name", "builder"),
                                   Pair("csi.storage.k8s.io/ephemeral", "false")));
}

TEST_F(MountVolumesTest, TokensAreAskedForThePodAndGivenWhereTheDriverWants) {
  PutDriver({{"tokenRequests",
              {{{"audience", "vault"}, {"expirationSeconds", 600}}, {{"audience", ""}}}}});
  ASSERT_TRUE(Stage().ok());
  ASSERT_TRUE(Publish().ok());
  const auto requests = host_.token_requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0]["spec"]["audiences"], Json({"vault"}));
  EXPECT_EQ(requests[0]["spec"]["expirationSeconds"], 600);
  EXPECT_EQ(requests[0]["spec"]["boundObjectRef"],
            (Json{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "web"}, {"uid", kPodUid}}));
  EXPECT_EQ(requests[1]["spec"]["audiences"], Json::array());
  const std::string key = "csi.storage.k8s.io/serviceAccount.tokens";
  const auto publish = Last<PublishRequest>("NodePublishVolume");
  ASSERT_TRUE(publish.volume_context().contains(key));
  EXPECT_EQ(*base::json::Parse(publish.volume_context().at(key)),
            (Json{{"vault",
                   {{"token", "token-of-shop/builder-1"},
                    {"expirationTimestamp", "2026-01-01T01:00:00Z"}}},
                  {"",
                   {{"token", "token-of-shop/builder-2"},
                    {"expirationTimestamp", "2026-01-01T01:00:00Z"}}}}));

  PutDriver({{"tokenRequests", {{{"audience", "vault"}}}}, {"serviceAccountTokenInSecrets", true}});
  ASSERT_TRUE(Publish().ok());
  EXPECT_TRUE(Last<PublishRequest>("NodePublishVolume").secrets().contains(key));
  EXPECT_FALSE(Last<PublishRequest>("NodePublishVolume").volume_context().contains(key));
}

TEST_F(MountVolumesTest, TokensAreKeptWhileTheyAreYoung) {
  PutDriver({{"tokenRequests", {{{"audience", "vault"}}}}, {"requiresRepublish", true}});
  ASSERT_TRUE(Stage().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(host_.token_requests().size(), 1u);
  host_.fake_clock().Advance(std::chrono::minutes(50));
  ASSERT_TRUE(Publish().ok());
  EXPECT_EQ(host_.token_requests().size(), 2u);
}

TEST_F(MountVolumesTest, WithSelinuxTheMountGetsThePodsLabel) {
  const std::string label = "system_u:object_r:container_file_t:s0:c1,c2";
  const Json container = {{"name", "a"},
                          {"volumeMounts", {{{"name", "data"}, {"mountPath", "/data"}}}}};
  const api::Pod pod = Pod({{"containers", {container}},
                            {"securityContext", {{"seLinuxOptions", {{"level", "s0:c1,c2"}}}}}});
  host_.SetSelinux(true);
  PutDriver({{"seLinuxMount", true}});
  const VolumeSpec spec = Persistent({{"mountOptions", {"noatime"}}});
  ASSERT_TRUE(Stage(spec, pod).ok());
  ASSERT_TRUE(Publish(spec, pod).ok());
  const std::string option = "context=\"" + label + "\"";
  EXPECT_THAT(Last<StageRequest>("NodeStageVolume").volume_capability().mount().mount_flags(),
              ElementsAre("noatime", option));
  EXPECT_THAT(Last<PublishRequest>("NodePublishVolume").volume_capability().mount().mount_flags(),
              ElementsAre("noatime", option));
  EXPECT_EQ(ReadJson(kPodVolume + "/vol_data.json")["seLinuxMountContext"], label);

  // Another pod with another label would see files that are not its own.
  api::Pod other = pod;
  other.mutable_json()["metadata"]["uid"] = "another";
  other.mutable_json()["spec"]["securityContext"]["seLinuxOptions"]["level"] = "s0:c9";
  const auto refused = Publish(spec, other);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(refused.status())),
              HasSubstr("conflicting SELinux labels"));
}

// Who stages after a restart of the node agent finds a mount whose label cannot be changed.
TEST_F(MountVolumesTest, TheLabelOfAMountOutlivesTheNodeAgent) {
  const auto pod = [](const char* level) {
    const Json container = {{"name", "a"},
                            {"volumeMounts", {{{"name", "data"}, {"mountPath", "/data"}}}}};
    return Pod({{"containers", {container}},
                {"securityContext", {{"seLinuxOptions", {{"level", level}}}}}});
  };
  host_.SetSelinux(true);
  PutDriver({{"seLinuxMount", true}});
  ASSERT_TRUE(Stage(Persistent(), pod("s0:c1,c2")).ok());
  const Json before = ReadJson(kDevice + "/vol_data.json");
  plugin_ = NewCsiPlugin(host_);
  const Status refused = Stage(Persistent(), pod("s0:c9"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(refused), HasSubstr("conflicting SELinux labels"));
  EXPECT_EQ(ReadJson(kDevice + "/vol_data.json"), before);
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 1);
  EXPECT_TRUE(Stage(Persistent(), pod("s0:c1,c2")).ok());
}

TEST_F(MountVolumesTest, WithoutSelinuxOrADriverThatWantsItThereIsNoLabel) {
  const Json container = {{"name", "a"},
                          {"volumeMounts", {{{"name", "data"}, {"mountPath", "/data"}}}}};
  const api::Pod pod = Pod({{"containers", {container}},
                            {"securityContext", {{"seLinuxOptions", {{"level", "s0:c1,c2"}}}}}});
  PutDriver({{"seLinuxMount", true}});
  ASSERT_TRUE(Stage(Persistent(), pod).ok());
  EXPECT_THAT(Last<StageRequest>("NodeStageVolume").volume_capability().mount().mount_flags(),
              ElementsAre());
  host_.SetSelinux(true);
  PutDriver(Json::object());
  ASSERT_TRUE(Stage(Persistent(), pod).ok());
  EXPECT_THAT(Last<StageRequest>("NodeStageVolume").volume_capability().mount().mount_flags(),
              ElementsAre());
}

TEST_F(MountVolumesTest, FsGroupIsAppliedAfterPublish) {
  const std::string file = Path(kPodVolume + "/mount/file");
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    std::ofstream(file) << "x";
    std::filesystem::permissions(file, std::filesystem::perms(0600));
    host_.fake_mounter().Add(Path(kPodVolume + "/mount"));
    return base::OkStatus();
  });
  const gid_t group = getgid();
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", group}}}});
  ASSERT_TRUE(Stage(Persistent(), pod).ok());
  const auto published = Publish(Persistent(), pod);
  ASSERT_TRUE(published.ok()) << published.status();
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0660u);
  EXPECT_EQ(info.st_gid, group);
  ASSERT_EQ(stat(published->path.c_str(), &info), 0);
  EXPECT_TRUE(info.st_mode & S_ISGID);
  EXPECT_EQ(
      Last<PublishRequest>("NodePublishVolume").volume_capability().mount().volume_mount_group(),
      "");
}

TEST_F(MountVolumesTest, AProcessThatEndsDoesNotFinishAWalk) {
  const std::string file = Path(kPodVolume + "/mount/file");
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message&) {
    std::ofstream(file) << "x";
    host_.fake_mounter().Add(Path(kPodVolume + "/mount"));
    return base::OkStatus();
  });
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", getgid()}}}});
  ASSERT_TRUE(Stage(Persistent(), pod).ok());
  host_.End();
  EXPECT_EQ(Publish(Persistent(), pod).status().code(), StatusCode::kCancelled);
}

TEST_F(MountVolumesTest, ADriverThatAppliesFsGroupItselfIsToldTheGroup) {
  driver_->state().options().node_capabilities.insert(NodeRpc::VOLUME_MOUNT_GROUP);
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", 4321}}}});
  ASSERT_TRUE(Stage(Persistent(), pod).ok());
  EXPECT_EQ(Last<StageRequest>("NodeStageVolume").volume_capability().mount().volume_mount_group(),
            "4321");
  const auto published = Publish(Persistent(), pod);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(
      Last<PublishRequest>("NodePublishVolume").volume_capability().mount().volume_mount_group(),
      "4321");
  struct stat info;
  ASSERT_EQ(stat(published->path.c_str(), &info), 0);
  EXPECT_FALSE(info.st_mode & S_ISGID);
}

TEST_F(MountVolumesTest, AnInlineVolumeIsOnlyPublished) {
  PutDriver({{"volumeLifecycleModes", {"Ephemeral"}}, {"podInfoOnMount", true}});
  PutSecret("shop", "key", {{"k", "dg=="}});
  const VolumeSpec spec = Inline(
      {{"volumeAttributes", {{"size", "1Gi"}}}, {"nodePublishSecretRef", {{"name", "key"}}}});
  EXPECT_FALSE(plugin_->DeviceName(spec)->has_value());
  EXPECT_FALSE(*plugin_->NeedsAttach(spec));
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, {}).ok());
  const auto published = plugin_->SetUp(Pod(), spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  const auto publish = Last<PublishRequest>("NodePublishVolume");
  EXPECT_EQ(publish.volume_id(),
            "csi-a46bec53679aafe7e6bc42077f33be9e5c533643ed1224b3bfbf2dd627bbf53c");
  EXPECT_EQ(publish.staging_target_path(), "");
  EXPECT_EQ(publish.volume_context().at("size"), "1Gi");
  EXPECT_EQ(publish.volume_context().at("csi.storage.k8s.io/ephemeral"), "true");
  EXPECT_EQ(publish.secrets().at("k"), "v");
  EXPECT_EQ(publish.volume_capability().access_mode().mode(), Mode::SINGLE_NODE_WRITER);
  const std::string folder =
      "pods/11111111-2222-3333-4444-555555555555/volumes/kubernetes.io~csi/scratch";
  EXPECT_EQ(published->path, Path(folder + "/mount"));
  EXPECT_EQ(ReadJson(folder + "/vol_data.json")["volumeLifecycleMode"], "Ephemeral");
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(spec)).ok());
  EXPECT_FALSE(Exists(folder));
  EXPECT_THAT(NodeCalls(), ElementsAre("NodePublishVolume", "NodeUnpublishVolume"));
}

// Drivers of secrets and of workloads' identities demand readOnly, mount writable themselves to
// bring the content up to date, and may show one folder to all pods.
TEST_F(MountVolumesTest, InlineVolumesMayShareAWritableMountThatContainersGetReadOnly) {
  PutDriver({{"volumeLifecycleModes", {"Ephemeral"}}, {"podInfoOnMount", true}});
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message& message) {
    host_.fake_mounter().Add(dynamic_cast<const PublishRequest&>(message).target_path(), "tmpfs",
                             "identities");
    return base::OkStatus();
  });
  api::Pod other = Pod();
  other.Set({"metadata", "uid"}, "22222222-2222-3333-4444-555555555555");
  for (const api::Pod& pod : {Pod(), other}) {
    const auto published = plugin_->SetUp(pod, Inline({{"readOnly", true}}), {});
    ASSERT_TRUE(published.ok()) << published.status();
    EXPECT_TRUE(published->read_only);
  }
  EXPECT_TRUE(Last<PublishRequest>("NodePublishVolume").readonly());
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 0);
}

TEST_F(MountVolumesTest, ALifecycleThatTheDriverDoesNotListIsRefused) {
  host_.Remove(api::kinds::kCsiDriver, "", kDriver);
  const Status published = plugin_->SetUp(Pod(), Inline(), {}).status();
  EXPECT_EQ(published.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(published), HasSubstr("lifecycle mode Ephemeral"));
  PutDriver({{"volumeLifecycleModes", {"Ephemeral"}}});
  ASSERT_TRUE(Stage().ok());
  EXPECT_EQ(Publish().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(driver_->script().Count("NodePublishVolume"), 0);
}

TEST_F(MountVolumesTest, WhileTheApiIsAwayNothingIsGuessed) {
  ASSERT_TRUE(Stage().ok());
  host_.FailApi(base::Status(StatusCode::kUnavailable, "no API"));
  EXPECT_EQ(plugin_->NeedsAttach(Persistent()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Publish().status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(Persistent())).ok());
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
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

// INVALID_ARGUMENT, OUT_OF_RANGE and NOT_FOUND of the driver are for good (volume_expansion.h).
TEST_F(MountVolumesTest, AMissingSecretDoesNotReadAsTheDriversRefusalToGrow) {
  const VolumeSpec spec =
      Persistent({{"csi", {{"nodeExpandSecretRef", {{"namespace", "vault"}, {"name", "grow"}}}}}});
  ASSERT_TRUE(Stage(spec).ok());
  ASSERT_TRUE(Publish(spec).ok());
  const Status missing = plugin_->Expand(PodRecordOf(spec), spec, 4096);
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(missing), HasSubstr("vault/grow"));
  PutSecret("vault", "grow", {{"key", "/////w=="}});
  EXPECT_EQ(plugin_->Expand(PodRecordOf(spec), spec, 4096).code(), StatusCode::kUnavailable);
  EXPECT_EQ(driver_->script().Count("NodeExpandVolume"), 0);
  PutSecret("vault", "grow", {{"key", "dg=="}});
  driver_->script().Fail("NodeExpandVolume", base::Status(StatusCode::kNotFound, "gone"));
  EXPECT_EQ(plugin_->Expand(PodRecordOf(spec), spec, 4096).code(), StatusCode::kNotFound);
  EXPECT_TRUE(plugin_->Expand(PodRecordOf(spec), spec, 4096).ok());
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
