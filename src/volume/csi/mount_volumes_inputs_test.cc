// What a driver is told of a volume, of its pod and of the API's objects: secrets, tokens, labels,
// groups, inline volumes.
#include <sys/stat.h>

#include "volume/csi/mount_volumes_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

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
  EXPECT_THAT(MessageOf(missing), HasSubstr("vault/stage"));
  PutSecret("vault", "stage", {{"key", "/////w=="}});
  const Status binary = Stage(spec);
  EXPECT_EQ(binary.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(binary), HasSubstr("'key' is not text"));
  EXPECT_THAT(NodeCalls(), IsEmpty());
  EXPECT_FALSE(Exists(kDevice));
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
  EXPECT_THAT(MessageOf(refused), HasSubstr("conflicting SELinux labels"));
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
  EXPECT_THAT(MessageOf(published), HasSubstr("lifecycle mode Ephemeral"));
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

// INVALID_ARGUMENT, OUT_OF_RANGE and NOT_FOUND of the driver are for good (volume_expansion.h).
TEST_F(MountVolumesTest, AMissingSecretDoesNotReadAsTheDriversRefusalToGrow) {
  const VolumeSpec spec =
      Persistent({{"csi", {{"nodeExpandSecretRef", {{"namespace", "vault"}, {"name", "grow"}}}}}});
  ASSERT_TRUE(Stage(spec).ok());
  ASSERT_TRUE(Publish(spec).ok());
  const Status missing = plugin_->Expand(PodRecordOf(spec), spec, 4096);
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(missing), HasSubstr("vault/grow"));
  PutSecret("vault", "grow", {{"key", "/////w=="}});
  EXPECT_EQ(plugin_->Expand(PodRecordOf(spec), spec, 4096).code(), StatusCode::kUnavailable);
  EXPECT_EQ(driver_->script().Count("NodeExpandVolume"), 0);
  PutSecret("vault", "grow", {{"key", "dg=="}});
  driver_->script().Fail("NodeExpandVolume", base::Status(StatusCode::kNotFound, "gone"));
  EXPECT_EQ(plugin_->Expand(PodRecordOf(spec), spec, 4096).code(), StatusCode::kNotFound);
  EXPECT_TRUE(plugin_->Expand(PodRecordOf(spec), spec, 4096).ok());
}

}  // namespace
}  // namespace berth::volume
