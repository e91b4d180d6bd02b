#include "controllers/provisioner/provisioner.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/names.h"

namespace berth::controllers::provisioner {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

constexpr char kDriver[] = "fake.csi.example.com";

Json Asked(const Json& more = nullptr) {
  return Merged({{"metadata", {{"annotations", {{std::string(kStorageProvisioner), kDriver}}}}}},
                more);
}

// As Asked, without the protection that only another controller takes off.
Json Unprotected(const std::string& name) {
  Json claim = MakeClaim(name, Asked());
  claim["metadata"].erase("finalizers");
  return claim;
}

class ProvisionerTest : public ::testing::Test {
 protected:
  void Begin(rpc::FakeCsiDriver::Options driver = NoTopology(), Options options = Fast()) {
    cluster_.Add<Provisioner>(cluster_.AddDriver(std::move(driver)), std::move(options));
    cluster_.client.Add(MakeClass("fast"));
    cluster_.Start();
  }

  static rpc::FakeCsiDriver::Options NoTopology() {
    rpc::FakeCsiDriver::Options options;
    options.plugin_capabilities = {DriverInfo::Service::CONTROLLER_SERVICE};
    return options;
  }
  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    return options;
  }

  rpc::CallScript& script() { return cluster_.driver->script(); }
  Claim GetClaim(const std::string& name) { return cluster_.Get<Claim>("default", name); }
  Volume GetVolume(const std::string& name) { return cluster_.Get<Volume>("", name); }
  bool WaitVolume(const std::string& name) {
    return cluster_.WaitUntil([&] { return cluster_.Has<Volume>("", name); });
  }
  // Deletes as a person does: through the API, finalizers holding.
  void Delete(const api::KindInfo& kind, const std::string& ns, const std::string& name) {
    ASSERT_TRUE(cluster_.client.Delete(kind, ns, name, {}).ok());
  }

  FakeCluster cluster_;
};

TEST_F(ProvisionerTest, MakesTheVolumeAndItsObjectWithTwoWrites) {
  Begin();
  cluster_.client.Add(
      MakeClass("rich", {{"parameters", {{"csi.storage.k8s.io/fstype", "xfs"}, {"tier", "gold"}}},
                         {"mountOptions", {"noatime"}}}));
  cluster_.client.Add(MakeClaim("data", Asked({{"spec", {{"storageClassName", "rich"}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  ASSERT_TRUE(cluster_.events.WaitFor(
      "Normal ProvisioningSucceeded default/data: Successfully provisioned volume pvc-uid-data"));

  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  EXPECT_EQ(request.name(), "pvc-uid-data");
  EXPECT_EQ(request.capacity_range().required_bytes(), int64_t{1} << 30);
  EXPECT_EQ(request.capacity_range().limit_bytes(), 0);
  ASSERT_EQ(request.volume_capabilities_size(), 1);
  EXPECT_EQ(request.volume_capabilities(0).mount().fs_type(), "xfs");
  EXPECT_THAT(request.volume_capabilities(0).mount().mount_flags(), ElementsAre("noatime"));
  EXPECT_EQ(request.volume_capabilities(0).access_mode().mode(),
            csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  EXPECT_THAT(request.parameters(), ElementsAre(Pair("tier", "gold")));

  const Volume volume = GetVolume("pvc-uid-data");
  EXPECT_EQ(volume.annotation(kProvisionedBy), kDriver);
  EXPECT_TRUE(volume.has_annotation(kDeletionSecretName));
  EXPECT_EQ(volume.annotation(kDeletionSecretName), "");
  EXPECT_THAT(volume.finalizers(), ElementsAre(std::string(kVolumeFinalizer)));
  EXPECT_EQ(volume.capacity(), "1Gi");
  EXPECT_EQ(volume.claim_uid(), "uid-data");
  EXPECT_EQ(volume.claim_name(), "data");
  EXPECT_EQ(volume.claim_namespace(), "default");
  EXPECT_EQ(volume.storage_class_name(), "rich");
  EXPECT_EQ(volume.reclaim_policy(), "Delete");
  EXPECT_THAT(volume.mount_options(), ElementsAre("noatime"));
  EXPECT_EQ(volume.csi().fs_type(), "xfs");
  EXPECT_EQ(volume.csi().driver(), kDriver);
  EXPECT_FALSE(volume.csi().volume_handle().empty());
  EXPECT_THAT(volume.csi().volume_attributes(),
              Contains(Pair(std::string(kIdentityAttribute), HasSubstr(kDriver))));
  EXPECT_EQ(volume.node_affinity(), nullptr);
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("patch persistentvolumeclaims/default/data",
                          "create persistentvolumes/pvc-uid-data"));
}

TEST_F(ProvisionerTest, HoldsTheClaimBeforeTheDriverIsAsked) {
  Begin();
  script().Hang("CreateVolume");
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  EXPECT_TRUE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, OtherProvisionersClaimsAreLeftAlone) {
  Begin();
  cluster_.client.Add(MakeClaim(
      "other", {{"metadata",
                 {{"annotations", {{std::string(kStorageProvisioner), "another.example.com"}}}}}}));
  cluster_.client.Add(MakeClaim("not-asked"));
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(ProvisionerTest, AnUnknownOutcomeIsAskedAgainByTheSameName) {
  Begin();
  script().LoseAnswer("CreateVolume", 2);
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto requests = script().Requests<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_THAT(requests, SizeIs(3));
  for (const auto& request : requests) EXPECT_EQ(request.name(), "pvc-uid-data");
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_F(ProvisionerTest, AClaimDeletedWhileTheOutcomeIsUnknownLeavesNoVolumeWithoutObject) {
  Begin();
  script().LoseAnswer("CreateVolume");
  cluster_.client.Add(Unprotected("data"));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  Delete(Claim::kInfo, "default", "data");
  // The claim stays until the volume has an object; then it goes.
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
}

TEST_F(ProvisionerTest, ADeletedClaimIsLetGoWhenTheDriverFinallyRefuses) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"), rpc::CallScript::kAlways);
  cluster_.client.Add(Unprotected("data"));
  ASSERT_TRUE(cluster_.events.WaitFor("rpc error: code = Internal desc = CreateVolume: no"));
  Delete(Claim::kInfo, "default", "data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
}

TEST_F(ProvisionerTest, AfterARestartADeletedClaimThatWasHeldIsAskedForOnceMore) {
  // Killed between CreateVolume and the PersistentVolume, the claim deleted meanwhile.
  Json claim = MakeClaim("data", Asked());
  claim["metadata"]["finalizers"] = {std::string(kProvisioningFinalizer)};
  cluster_.client.Add(claim);
  Delete(Claim::kInfo, "default", "data");
  ASSERT_TRUE(GetClaim("data").deleting());
  Begin();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetVolume("pvc-uid-data").claim_uid(), "uid-data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
}

TEST_F(ProvisionerTest, AClaimThatTookAnotherVolumeMeanwhileStillGetsTheOneInTheMakingAnObject) {
  Begin();
  script().Hang("CreateVolume");
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  Claim claim = GetClaim("data");
  claim.mutable_json().merge_patch(BoundClaim("pv-by-hand"));
  cluster_.client.Add(claim);
  script().LoseAnswer("CreateVolume");
  script().Release("CreateVolume");
  // With its object it can be released and deleted.
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return !GetClaim("data").has_finalizer(kProvisioningFinalizer); }));
}

TEST_F(ProvisionerTest, ABoundClaimIsLetGoWhereAnotherBinderBoundIt) {
  Begin();
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  Claim claim = GetClaim("data");
  ASSERT_TRUE(claim.has_finalizer(kProvisioningFinalizer));
  claim.mutable_json().merge_patch(BoundClaim("pvc-uid-data"));
  cluster_.client.Add(claim);
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return !GetClaim("data").has_finalizer(kProvisioningFinalizer); }));
}

TEST_F(ProvisionerTest, AFullPoolIsSaidAndTriedAgain) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "pool is full"), 2);
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor(
      "Warning ProvisioningFailed default/data: failed to provision volume with StorageClass "
      "\"fast\": rpc error: code = ResourceExhausted desc = CreateVolume: pool is full"));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, AnAbsentDriverIsWaitedFor) {
  Options slow;  // the driver's return, not the backoff of a second and more, brings the volume
  slow.retry_start = std::chrono::minutes(10);
  slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.client.Add(MakeClaim("first", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-first"));
  cluster_.driver->GoAway();
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("code = Unavailable"));
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST(CheckAnswerTest, AVolumeSmallerThanAskedOrWithoutItsContentIsRefused) {
  Plan plan;
  plan.request.mutable_capacity_range()->set_required_bytes(1000);
  csi::v1::Volume volume;
  volume.set_volume_id("v");
  volume.set_capacity_bytes(999);
  EXPECT_EQ(CheckAnswer(plan, volume).code(), StatusCode::kOutOfRange);
  volume.set_capacity_bytes(0);
  EXPECT_TRUE(CheckAnswer(plan, volume).ok());
  plan.request.mutable_volume_content_source()->mutable_volume()->set_volume_id("source");
  EXPECT_EQ(CheckAnswer(plan, volume).code(), StatusCode::kFailedPrecondition);
}

TEST_F(ProvisionerTest, ALostAnswerOfTheApiEndsInOneObject) {
  Begin();
  cluster_.client.LoseNextAnswer("create", "persistentvolumes",
                                 base::Error(StatusCode::kAborted, "lost"));
  cluster_.client.Add(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(cluster_.client.PeekAll(Volume::kInfo), SizeIs(1));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_F(ProvisionerTest, WhereOnlyUpdateIsGrantedTheClaimIsWrittenWhole) {
  Begin();
  cluster_.client.FailNext("patch", "persistentvolumeclaims",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  cluster_.client.Add(MakeClaim("data", Asked({{"spec", {{"someFutureField", 1}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
  EXPECT_EQ(GetClaim("data").Int({"spec", "someFutureField"}), 1);
}

TEST_F(ProvisionerTest, SecretsComeFromTheClassAndGoToTheDriver) {
  Begin();
  cluster_.client.Add(MakeClass(
      "secret", {{"parameters",
                  {{"csi.storage.k8s.io/provisioner-secret-name", "creds"},
                   {"csi.storage.k8s.io/provisioner-secret-namespace", "${pvc.namespace}"},
                   {"csi.storage.k8s.io/node-stage-secret-name", "stage"},
                   {"csi.storage.k8s.io/node-stage-secret-namespace", "default"}}}}));
  cluster_.client.Add(MakeClaim("data", Asked({{"spec", {{"storageClassName", "secret"}}}})));
  ASSERT_TRUE(cluster_.events.WaitFor("read secret 'default/creds'"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_FALSE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
  cluster_.client.Add({{"apiVersion", "v1"},
                       {"kind", "Secret"},
                       {"metadata", {{"name", "creds"}, {"namespace", "default"}}},
                       {"data", {{"password", "aHVudGVyMg=="}}}});
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  EXPECT_THAT(request.secrets(), ElementsAre(Pair("password", "hunter2")));
  EXPECT_THAT(request.parameters(), IsEmpty());
  const Volume volume = GetVolume("pvc-uid-data");
  EXPECT_EQ(volume.annotation(kDeletionSecretName), "creds");
  EXPECT_EQ(volume.annotation(kDeletionSecretNamespace), "default");
  EXPECT_EQ(volume.csi().secret_ref("nodeStageSecretRef").name, "stage");
  for (const std::string& event : cluster_.events.All())
    EXPECT_THAT(event, Not(HasSubstr("hunter2")));
}

TEST_F(ProvisionerTest, ABlockClaimAsksForABlockVolume) {
  Begin();
  cluster_.client.Add(MakeClaim("raw", Asked({{"spec", {{"volumeMode", "Block"}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-raw"));
  EXPECT_TRUE(script()
                  .LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume")
                  .volume_capabilities(0)
                  .has_block());
  EXPECT_EQ(GetVolume("pvc-uid-raw").volume_mode(), "Block");
  EXPECT_EQ(GetVolume("pvc-uid-raw").csi().fs_type(), "");
}

TEST_F(ProvisionerTest, AClaimWithASelectorIsRefused) {
  Begin();
  cluster_.client.Add(
      MakeClaim("data", Asked({{"spec", {{"selector", {{"matchLabels", {{"a", "b"}}}}}}}})));
  EXPECT_TRUE(cluster_.events.WaitFor("claim Selector is not supported"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

class DelayedTest : public ProvisionerTest {
 protected:
  void BeginDelayed() {
    rpc::FakeCsiDriver::Options driver;
    driver.topology = {{"zone", "a"}};
    for (const auto& [node, zone] : {std::pair{"node-a", "a"}, std::pair{"node-b", "b"}}) {
      cluster_.client.Add(MakeNode(node, {{"metadata", {{"labels", {{"zone", zone}}}}}}));
      cluster_.client.Add(MakeCsiNode(node, {"zone"}));
    }
    Begin(driver);
    cluster_.client.Add(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
  }
  Json Late(const std::string& node) {
    Json more = Asked({{"spec", {{"storageClassName", "late"}}}});
    if (!node.empty()) more["metadata"]["annotations"][std::string(kSelectedNode)] = node;
    return MakeClaim("data", more);
  }
};

TEST_F(DelayedTest, ProvisionsWhenANodeIsSelectedAndForItsTopology) {
  BeginDelayed();
  cluster_.client.Add(Late(""));
  cluster_.client.Add(MakeClaim("barrier", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-barrier"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  cluster_.client.Add(Late("node-b"));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  EXPECT_EQ(request.accessibility_requirements().requisite_size(), 2);
  EXPECT_EQ(request.accessibility_requirements().preferred(0).segments().at("zone"), "b");
  EXPECT_NE(GetVolume("pvc-uid-data").node_affinity(), nullptr);
}

TEST_F(DelayedTest, ANodeWithoutCapacityIsGivenUpForAnother) {
  BeginDelayed();
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
  cluster_.client.Add(Late("node-b"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  // The scheduler's turn; then it works.
  Claim again = GetClaim("data");
  again.set_annotation(kSelectedNode, "node-a");
  cluster_.client.Add(again);
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(DelayedTest, ANodeThatIsGoneIsGivenUp) {
  BeginDelayed();
  cluster_.client.Add(Late("node-gone"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(DelayedTest, WithAnUnknownOutcomeTheNodeIsKeptAlsoIfItVanishes) {
  BeginDelayed();
  script().LoseAnswer("CreateVolume");
  script().Hang("CreateVolume");
  cluster_.client.Add(Late("node-b"));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  cluster_.client.Remove(api::Node::kInfo, "", "node-b");
  cluster_.client.Remove(api::CsiNode::kInfo, "", "node-b");
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetClaim("data").annotation(kSelectedNode), "node-b");
  const auto requests = script().Requests<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].accessibility_requirements().SerializeAsString().size(),
            requests[1].accessibility_requirements().SerializeAsString().size());
}

TEST_F(DelayedTest, ADriverThatRegistersLaterIsNoticed) {
  BeginDelayed();
  cluster_.client.Add(MakeNode("node-c", {{"metadata", {{"labels", {{"zone", "c"}}}}}}));
  cluster_.client.Add(Json{{"apiVersion", "storage.k8s.io/v1"},
                           {"kind", "CSINode"},
                           {"metadata", {{"name", "node-c"}}},
                           {"spec", {{"drivers", Json::array()}}}});
  cluster_.client.Add(Late("node-c"));
  ASSERT_TRUE(cluster_.events.WaitFor("not registered there (yet)"));
  cluster_.client.Add(MakeCsiNode("node-c", {"zone"}));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

class CloneTest : public ProvisionerTest {
 protected:
  void BeginWithSource() {
    Begin();
    csi::v1::CreateVolumeRequest request;
    cluster_.client.Add(MakeClaim("source", Asked()));
    ASSERT_TRUE(WaitVolume("pvc-uid-source"));
    Claim source = GetClaim("source");
    source.mutable_json().merge_patch(BoundClaim("pvc-uid-source"));
    cluster_.client.Add(source);
    Volume volume = GetVolume("pvc-uid-source");
    volume.Set({"status", "phase"}, "Bound");
    cluster_.client.Add(volume);
  }
  Json Clone(const std::string& size) {
    return MakeClaim(
        "copy", Asked({{"spec",
                        {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "source"}}},
                         {"resources", {{"requests", {{"storage", size}}}}}}}}));
  }
};

TEST_F(CloneTest, ACopyIsMadeFromTheSourcesVolumeAndTheSourceIsHeldMeanwhile) {
  BeginWithSource();
  script().Hang("CreateVolume");
  cluster_.client.Add(Clone("1Gi"));
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  const std::string protection = "provisioner.storage.kubernetes.io/cloning-protection";
  EXPECT_TRUE(GetClaim("source").has_finalizer(protection));
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_EQ(script()
                .LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume")
                .volume_content_source()
                .volume()
                .volume_id(),
            GetVolume("pvc-uid-source").csi().volume_handle());
  Claim copy = GetClaim("copy");
  copy.mutable_json().merge_patch(BoundClaim("pvc-uid-copy"));
  cluster_.client.Add(copy);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("source").has_finalizer(protection); }));
}

TEST_F(CloneTest, ACopySmallerThanItsSourceIsRefused) {
  BeginWithSource();
  cluster_.client.Add(Clone("512Mi"));
  EXPECT_TRUE(cluster_.events.WaitFor("the copy must have at least its size, 1Gi"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(CloneTest, OtherSourcesAreSaidToBeUnsupportedOrLeftToPopulators) {
  Begin();
  cluster_.client.Add(MakeClaim("snap", Asked({{"spec",
                                                {{"dataSource",
                                                  {{"apiGroup", "snapshot.storage.k8s.io"},
                                                   {"kind", "VolumeSnapshot"},
                                                   {"name", "s"}}}}}})));
  EXPECT_TRUE(cluster_.events.WaitFor("unsupported dataSource kind VolumeSnapshot"));
  cluster_.client.Add(MakeClaim(
      "pop", Asked({{"spec",
                     {{"dataSourceRef",
                       {{"apiGroup", "example.com"}, {"kind", "Hello"}, {"name", "h"}}}}}})));
  EXPECT_TRUE(
      cluster_.events.WaitFor("Normal Provisioning default/pop: Assuming an external populator"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

class DeleteTest : public ProvisionerTest {
 protected:
  // A volume as it is left when its claim went.
  std::string Release(const Json& more = nullptr) {
    cluster_.client.Add(Unprotected("data"));
    EXPECT_TRUE(WaitVolume("pvc-uid-data"));
    cluster_.client.Remove(Claim::kInfo, "default", "data");
    Volume volume = GetVolume("pvc-uid-data");
    volume.Set({"status", "phase"}, "Released");
    if (!more.is_null()) volume.mutable_json().merge_patch(more);
    cluster_.client.Add(volume);
    return volume.csi().volume_handle();
  }

  // Waits until the queue came past what was added to it before.
  void PassQueue() {
    // The finalizer of a volume whose policy changed tells.
    cluster_.client.Add(MakeVolume(
        "barrier", {{"metadata", {{"annotations", {{std::string(kProvisionedBy), kDriver}}}}},
                    {"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}}}));
    ASSERT_TRUE(
        cluster_.WaitUntil([&] { return GetVolume("barrier").has_finalizer(kVolumeFinalizer); }));
  }
};

TEST_F(DeleteTest, AReleasedVolumeIsDeletedInTheDriverFirst) {
  Begin();
  const std::string handle = Release();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_EQ(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").volume_id(), handle);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), IsEmpty());
}

TEST_F(DeleteTest, TheDriverIsAskedOnceWhileOthersHoldTheObject) {
  Begin();
  Release({{"metadata", {{"finalizers", {"kubernetes.io/pv-protection"}}}}});
  const auto deleting = [&] { return GetVolume("pvc-uid-data").deleting(); };
  ASSERT_TRUE(cluster_.WaitUntil(deleting));
  Volume volume = GetVolume("pvc-uid-data");
  volume.Set({"metadata", "annotations", "touched"}, "yes");
  cluster_.client.Add(volume);
  PassQueue();
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  cluster_.client.Remove(Volume::kInfo, "", "pvc-uid-data");
}

TEST_F(DeleteTest, AFailedDeletionIsSaidAndTriedAgainAndTheObjectStays) {
  Begin();
  script().Fail("DeleteVolume", base::Error(StatusCode::kFailedPrecondition, "in use"));
  Release();
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning VolumeFailedDelete pvc-uid-data: rpc error: code = "
                              "FailedPrecondition desc = DeleteVolume: in use"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AnAttachedVolumeIsNotDeletedUntilItsAttachmentIsGone) {
  Begin();
  cluster_.client.Add({{"apiVersion", "storage.k8s.io/v1"},
                       {"kind", "VolumeAttachment"},
                       {"metadata", {{"name", "va"}}},
                       {"spec",
                        {{"attacher", kDriver},
                         {"nodeName", "node-a"},
                         {"source", {{"persistentVolumeName", "pvc-uid-data"}}}}}});
  ASSERT_TRUE(cluster_.client.WaitForWatches(api::VolumeAttachment::kInfo, 1));
  Release();
  PassQueue();
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  cluster_.client.Remove(api::VolumeAttachment::kInfo, "", "va");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AVolumeThatIsAnothersTooIsNotDeleted) {
  Begin();
  // The first volume of the driver is known as "vol-1".
  cluster_.client.Add(
      MakeVolume("twin", {{"spec", {{"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}}}}}}));
  cluster_.client.Add(Unprotected("data"));
  EXPECT_TRUE(cluster_.events.WaitFor("which belongs to PersistentVolume 'twin'"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST_F(DeleteTest, AVolumeWithTwoObjectsOutlivesTheFirst) {
  Begin();
  cluster_.client.Add(Unprotected("data"));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  Volume volume = GetVolume("pvc-uid-data");
  cluster_.client.Add(MakeVolume(
      "twin",
      {{"spec",
        {{"csi", {{"driver", kDriver}, {"volumeHandle", volume.csi().volume_handle()}}}}}}));
  ASSERT_TRUE(cluster_.client.WaitForWatches(Volume::kInfo, 1));
  PassQueue();
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  volume.Set({"status", "phase"}, "Released");
  cluster_.client.Add(volume);
  EXPECT_TRUE(cluster_.events.WaitFor("is PersistentVolume 'twin', too"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  cluster_.client.Remove(Volume::kInfo, "", "twin");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST(CheckAnswerTest, RefusesWhatWasNotAskedFor) {
  Plan plan;
  csi::v1::Volume volume;
  volume.set_volume_id("vol-1");
  EXPECT_TRUE(CheckAnswer(plan, volume).ok());
  plan.request.mutable_volume_content_source()->mutable_volume()->set_volume_id("vol-0");
  EXPECT_FALSE(CheckAnswer(plan, volume).ok());
  volume.mutable_content_source()->mutable_volume()->set_volume_id("vol-9");
  EXPECT_FALSE(CheckAnswer(plan, volume).ok());
  volume.mutable_content_source()->mutable_volume()->set_volume_id("vol-0");
  EXPECT_TRUE(CheckAnswer(plan, volume).ok());

  auto& requisite = *plan.request.mutable_accessibility_requirements()->add_requisite();
  (*requisite.mutable_segments())["zone"] = "a";
  (*requisite.mutable_segments())["rack"] = "1";
  auto& place = *volume.add_accessible_topology();
  (*place.mutable_segments())["zone"] = "b";
  EXPECT_EQ(CheckAnswer(plan, volume).code(), StatusCode::kFailedPrecondition);
  (*place.mutable_segments())["zone"] = "a";  // all of the zone, so the rack too
  EXPECT_TRUE(CheckAnswer(plan, volume).ok());
}

TEST_F(DeleteTest, AVolumeThatIsRetainedLosesTheFinalizerAndStays) {
  Begin();
  Release({{"spec", {{"persistentVolumeReclaimPolicy", "Retain"}}}});
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return !GetVolume("pvc-uid-data").has_finalizer(kVolumeFinalizer); }));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST(ClassifyTest, TellsFinalFromUnknown) {
  EXPECT_EQ(Classify(StatusCode::kDeadlineExceeded, true), FailureState::kInBackground);
  EXPECT_EQ(Classify(StatusCode::kUnavailable, true), FailureState::kInBackground);
  EXPECT_EQ(Classify(StatusCode::kAborted, true), FailureState::kInBackground);
  EXPECT_EQ(Classify(StatusCode::kCancelled, true), FailureState::kInBackground);
  EXPECT_EQ(Classify(StatusCode::kResourceExhausted, true), FailureState::kReschedule);
  EXPECT_EQ(Classify(StatusCode::kResourceExhausted, false), FailureState::kFinished);
  EXPECT_EQ(Classify(StatusCode::kInvalidArgument, true), FailureState::kInfeasible);
  EXPECT_EQ(Classify(StatusCode::kInternal, true), FailureState::kFinished);
}

TEST(VolumeNameTest, IsThePrefixAndTheUid) {
  const Claim claim(MakeClaim("data", {{"metadata", {{"uid", "12345678-1234-abcd"}}}}));
  EXPECT_EQ(VolumeName(Options{}, claim), "pvc-12345678-1234-abcd");
  Options options;
  options.volume_name_prefix = "vol";
  options.volume_name_uuid_length = 10;
  EXPECT_EQ(VolumeName(options, claim), "vol-1234567812");
}

}  // namespace
}  // namespace berth::controllers::provisioner
