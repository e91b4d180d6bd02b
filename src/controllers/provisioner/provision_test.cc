// From a claim to a PersistentVolume: objects in, API actions and CSI calls out.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

[[maybe_unused]] const auto* const kRights =
    CheckRightsOf("provisioner", "csi/base/rbac/provisioner.yaml",
                  {"get csinodes.storage.k8s.io", "get nodes", "get persistentvolumeclaims",
                   "get storageclasses.storage.k8s.io", "get volumeattachments.storage.k8s.io",
                   "get referencegrants.gateway.networking.k8s.io",
                   "watch referencegrants.gateway.networking.k8s.io"});

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

TEST_F(ProvisionerTest, MakesTheVolumeAndItsObjectWithTwoWrites) {
  Begin();
  cluster_.Put(
      MakeClass("rich", {{"parameters", {{"csi.storage.k8s.io/fstype", "xfs"}, {"tier", "gold"}}},
                         {"mountOptions", {"noatime"}}}));
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"storageClassName", "rich"}}}})));
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
              ElementsAre("create leases/storage/berth-provisioning-fake-csi-example-com",
                          "create persistentvolumes/pvc-uid-data"));
}

// The finalizers of a volume of a class with `reclaim_policy`, made beside an attacher by a driver
// that can attach if `attaches`.
class FinalizersTest : public ProvisionerTest {
 protected:
  std::vector<std::string> Finalizers(bool attaches, const std::string& reclaim_policy) {
    rpc::FakeCsiDriver::Options driver = NoTopology();
    driver.controller_capabilities.erase(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
    if (attaches) {
      driver.controller_capabilities.insert(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
    }
    Options options = Fast();
    options.attacher_beside = true;
    Begin(std::move(driver), std::move(options));
    cluster_.Put(MakeClass("own", {{"reclaimPolicy", reclaim_policy}}));
    cluster_.Put(MakeClaim("data", Asked({{"spec", {{"storageClassName", "own"}}}})));
    EXPECT_TRUE(WaitVolume("pvc-uid-data"));
    return GetVolume("pvc-uid-data").finalizers();
  }
};

TEST_F(FinalizersTest, BesideTheAttacherAVolumeIsMadeWithItsFinalizer) {
  EXPECT_THAT(Finalizers(true, "Delete"),
              ElementsAre(std::string(kVolumeFinalizer), AttacherFinalizer(kDriver)));
}

TEST_F(FinalizersTest, AVolumeThatNothingAttachesIsMadeWithoutTheAttachersFinalizer) {
  EXPECT_THAT(Finalizers(false, "Delete"), ElementsAre(std::string(kVolumeFinalizer)));
}

// Nobody but the attacher would remove its finalizer from such a volume.
TEST_F(FinalizersTest, AVolumeThatIsToStayIsMadeWithoutTheAttachersFinalizer) {
  EXPECT_THAT(Finalizers(true, "Retain"), IsEmpty());
}

TEST_F(ProvisionerTest, RecordsTheIntentBeforeTheDriverIsAskedAndMarksNoClaim) {
  Begin();
  script().Hang("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  EXPECT_TRUE(HasIntent("uid-data"));
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  for (const std::string& action : cluster_.client.ActionNames()) {
    EXPECT_THAT(action, Not(HasSubstr("persistentvolumeclaims"))) << "the claim is written";
  }
}

TEST_F(ProvisionerTest, OtherProvisionersClaimsAreLeftAlone) {
  Begin();
  cluster_.Put(MakeClaim(
      "other", {{"metadata",
                 {{"annotations", {{std::string(kStorageProvisioner), "another.example.com"}}}}}}));
  cluster_.Put(MakeClaim("not-asked"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(ProvisionerTest, AnUnknownOutcomeIsAskedAgainByTheSameName) {
  Begin();
  script().LoseAnswer("CreateVolume", 2);
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto requests = script().Requests<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_THAT(requests, SizeIs(3));
  for (const auto& request : requests) EXPECT_EQ(request.name(), "pvc-uid-data");
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_F(ProvisionerTest, AClaimDeletedWhileTheOutcomeIsUnknownLeavesNoVolumeWithoutObject) {
  Begin();
  script().LoseAnswer("CreateVolume", 2);
  script().Hang("CreateVolume");
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  Delete(Claim::kInfo, "default", "data");
  EXPECT_FALSE(cluster_.Has<Claim>("default", "data")) << "nothing holds it";
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetVolume("pvc-uid-data").claim_uid(), "uid-data");
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(ProvisionerTest, AnotherClaimOfTheNameWaitsUntilTheFirstHasItsVolume) {
  Begin();
  script().LoseAnswer("CreateVolume", 2);
  script().Hang("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  cluster_.Put(MakeClaim("data", Asked({{"metadata", {{"uid", "uid-second"}}}})));
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetVolume("pvc-uid-data").claim_uid(), "uid-data");
  ASSERT_TRUE(WaitVolume("pvc-uid-second"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(2));
}

TEST_F(ProvisionerTest, AClaimThatIsGoneAndThatTheDriverRefusesIsForgotten) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"));
  script().Hang("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  // The driver would be asked again for a claim that still seems to be there.
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.informers.Of<Claim>().Get("default", "data") == nullptr; }));
  script().Release("CreateVolume");
  ASSERT_TRUE(cluster_.events.WaitFor("code = Internal"));
  cluster_.Put(MakeClaim("barrier", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-barrier"));
  EXPECT_EQ(script().Count("CreateVolume"), 2);
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(ProvisionerTest, AClaimThatTookAnotherVolumeMeanwhileStillGetsTheOneInTheMakingAnObject) {
  Begin();
  script().Hang("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  Claim claim = GetClaim("data");
  claim.mutable_json().merge_patch(BoundClaim("pv-by-hand"));
  cluster_.Put(claim);
  script().LoseAnswer("CreateVolume");
  script().Release("CreateVolume");
  // With its object it can be released and deleted.
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(ProvisionerTest, AFullPoolIsSaidAndTriedAgain) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "pool is full"), 2);
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(
      cluster_.events.WaitFor("Warning ProvisioningFailed default/data: rpc error: code = "
                              "ResourceExhausted desc = pool is full"));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, AnAbsentDriverIsWaitedFor) {
  Options slow;  // the driver's return, not the backoff of a second and more, brings the volume
  slow.retry_start = std::chrono::minutes(10);
  slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.Put(MakeClaim("first", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-first"));
  cluster_.driver->GoAway();
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("code = Unavailable"));
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, ALostAnswerOfTheApiEndsInOneObject) {
  Begin();
  cluster_.client.LoseNextAnswer("create", "persistentvolumes",
                                 base::Error(StatusCode::kAborted, "lost"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(cluster_.client.PeekAll(Volume::kInfo), SizeIs(1));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_F(ProvisionerTest, AnUnknownClassParameterIsSaidAndItsCureNoticed) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.Put(MakeClass("odd", {{"parameters", {{"csi.storage.k8s.io/no-such-thing", "1"}}}}));
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"storageClassName", "odd"}}}})));
  ASSERT_TRUE(
      cluster_.events.WaitFor("unknown class parameter 'csi.storage.k8s.io/no-such-thing'"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_FALSE(HasIntent("uid-data"));
  cluster_.Put(MakeClass("odd"));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, AForbiddenVolumeObjectKeepsTheClaimUntilItIsAllowed) {
  Begin();
  cluster_.client.FailNext("create", "persistentvolumes",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("create PersistentVolume: forbidden"));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_F(ProvisionerTest, MutableParametersNeedADriverThatTakesThem) {
  Begin();
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"volumeAttributesClassName", "gold"}}}})));
  EXPECT_TRUE(cluster_.events.WaitFor("takes no mutable parameters"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(ProvisionerTest, MutableParametersComeFromTheAttributesClass) {
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.insert(DriverInfo::Rpc::MODIFY_VOLUME);
  Begin(driver);
  cluster_.client.Serve(api::kinds::kVolumeAttributesClass);
  cluster_.client.Add({{"apiVersion", "storage.k8s.io/v1"},
                       {"kind", "VolumeAttributesClass"},
                       {"metadata", {{"name", "gold"}}},
                       {"driverName", cluster_.driver->name()},
                       {"parameters", {{"iops", "100"}}}});
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"volumeAttributesClassName", "gold"}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  // The request is const, because mutable_parameters() of another one changes `parameters`.
  const auto request = CreateRequests().back();
  EXPECT_THAT(request.mutable_parameters(), ElementsAre(Pair("iops", "100")));
}

TEST_F(ProvisionerTest, AccessModesAreThoseOfCsi) {
  using Mode = csi::v1::VolumeCapability::AccessMode;
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.insert(DriverInfo::Rpc::SINGLE_NODE_MULTI_WRITER);
  Begin(driver);
  for (const auto& [mode, want] : {std::pair{"ReadWriteOnce", Mode::SINGLE_NODE_MULTI_WRITER},
                                   std::pair{"ReadWriteOncePod", Mode::SINGLE_NODE_SINGLE_WRITER},
                                   std::pair{"ReadWriteMany", Mode::MULTI_NODE_MULTI_WRITER},
                                   std::pair{"ReadOnlyMany", Mode::MULTI_NODE_READER_ONLY}}) {
    const std::string name = fmt::format("data-{}", static_cast<int>(want));
    cluster_.Put(MakeClaim(name, Asked({{"spec", {{"accessModes", {mode}}}}})));
    ASSERT_TRUE(WaitVolume("pvc-uid-" + name));
    EXPECT_EQ(CreateRequests().back().volume_capabilities(0).access_mode().mode(), want) << mode;
  }
}

TEST_F(ProvisionerTest, SecretsComeFromTheClassAndGoToTheDriver) {
  Begin();
  cluster_.Put(MakeClass("secret",
                         {{"parameters",
                           {{"csi.storage.k8s.io/provisioner-secret-name", "creds"},
                            {"csi.storage.k8s.io/provisioner-secret-namespace", "${pvc.namespace}"},
                            {"csi.storage.k8s.io/node-stage-secret-name", "stage"},
                            {"csi.storage.k8s.io/node-stage-secret-namespace", "default"}}}}));
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"storageClassName", "secret"}}}})));
  ASSERT_TRUE(cluster_.events.WaitFor("read secret 'default/creds'"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_FALSE(HasIntent("uid-data"));
  cluster_.Put({{"apiVersion", "v1"},
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
  cluster_.Put(MakeClaim("raw", Asked({{"spec", {{"volumeMode", "Block"}}}})));
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
  cluster_.Put(
      MakeClaim("data", Asked({{"spec", {{"selector", {{"matchLabels", {{"a", "b"}}}}}}}})));
  EXPECT_TRUE(cluster_.events.WaitFor("claim Selector is not supported"));
  cluster_.Put(MakeClaim("all", Asked({{"spec", {{"selector", Json::object()}}}})));
  EXPECT_TRUE(cluster_.events.WaitFor("default/all: claim Selector is not supported"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(ProvisionerTest, AnAnnotationThatWasMissingEndsTheBackoff) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.Put(MakeClass(
      "secret",
      {{"parameters",
        {{"csi.storage.k8s.io/node-stage-secret-name", "${pvc.annotations['example.com/key']}"},
         {"csi.storage.k8s.io/node-stage-secret-namespace", "default"}}}}));
  cluster_.Put(MakeClaim("data", Asked({{"spec", {{"storageClassName", "secret"}}}})));
  ASSERT_TRUE(cluster_.events.WaitFor("ProvisioningFailed"));
  Claim claim = GetClaim("data");
  claim.set_annotation("example.com/key", "credentials");
  cluster_.Put(claim);
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(ProvisionerTest, ARefusedClassIsNamedForItsCapacity) {
  base::Mutex mutex;
  std::vector<std::string> refused;
  Options options = Fast();
  options.on_refused = [&](const std::string& name) {
    base::MutexLock lock(mutex);
    refused.push_back(name);
  };
  Begin(NoTopology(), options);
  script().Fail("CreateVolume", base::Error(StatusCode::kUnavailable, "slow"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
  cluster_.Put(MakeClaim("more", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-more"));
  cluster_.Stop();
  base::MutexLock lock(mutex);
  EXPECT_THAT(refused, ElementsAre("fast"));
}

TEST_F(ProvisionerTest, TheNewsThatAVolumeIsBeingMadeIsWithdrawnWhenItIsThere) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("ProvisioningSucceeded"));
  const std::string beginning =
      "Normal Provisioning default/data: External provisioner is provisioning volume for claim "
      "\"default/data\"";
  EXPECT_GE(cluster_.events.Count(beginning), 1);
  EXPECT_THAT(cluster_.events.Withdrawn(), ElementsAre(beginning));
}

}  // namespace
}  // namespace berth::controllers::provisioner
