// What follows a CreateVolume whose outcome is not known: a final failure ends the attempt, but
// only the volume, or a proof that there is none, ends the search for what it made.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A claim that an older version of Berth marked before it called the driver.
Json Held(const std::string& name, const Json& more = nullptr) {
  Json claim = MakeClaim(name, Asked(more));
  claim["metadata"]["finalizers"] = {std::string(kProvisioningFinalizer)};
  return claim;
}

TEST(ProvesNoVolumeTest, TellsByTheCodeAndByWhatWasAskedBefore) {
  for (const auto earlier : {Earlier::kNone, Earlier::kSameCall, Earlier::kInherited}) {
    EXPECT_FALSE(ProvesNoVolume(StatusCode::kDeadlineExceeded, earlier));
    EXPECT_FALSE(ProvesNoVolume(StatusCode::kAborted, earlier));
  }
  for (const auto code : {StatusCode::kInvalidArgument, StatusCode::kNotFound,
                          StatusCode::kOutOfRange, StatusCode::kUnimplemented}) {
    EXPECT_TRUE(ProvesNoVolume(code, Earlier::kNone));
    EXPECT_TRUE(ProvesNoVolume(code, Earlier::kSameCall));
    EXPECT_FALSE(ProvesNoVolume(code, Earlier::kInherited));
  }
  for (const auto code :
       {StatusCode::kAlreadyExists, StatusCode::kResourceExhausted, StatusCode::kPermissionDenied,
        StatusCode::kUnauthenticated, StatusCode::kInternal, StatusCode::kUnknown,
        StatusCode::kFailedPrecondition}) {
    EXPECT_TRUE(ProvesNoVolume(code, Earlier::kNone));
    EXPECT_FALSE(ProvesNoVolume(code, Earlier::kSameCall));
    EXPECT_FALSE(ProvesNoVolume(code, Earlier::kInherited));
  }
}

class UnknownOutcomeTest : public ProvisionerTest {
 protected:
  // The first call makes the volume and its answer is lost; the next ones fail with `code`.
  void LoseThenFail(StatusCode code) {
    script().AfterEffect("CreateVolume", [this, code](const google::protobuf::Message&) {
      if (script().Count("CreateVolume") > 1) return base::OkStatus();
      script().Fail("CreateVolume", base::Error(code, "said the driver"), rpc::CallScript::kAlways);
      return base::Error(StatusCode::kDeadlineExceeded, "slow");
    });
  }
  void Relent() { script().Fail("CreateVolume", base::OkStatus(), 0); }

  // Begins with node-a of zone a.
  void BeginOnNode() {
    rpc::FakeCsiDriver::Options driver;
    driver.topology = {{"zone", "a"}};
    AddNode("node-a", "a");
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    Begin(driver);
  }
  // Adds a claim for which node-a is selected, and waits for its final failure.
  void FailOnNode() {
    cluster_.Put(MakeClaim(
        "data", Asked({{"metadata", {{"annotations", {{std::string(kSelectedNode), "node-a"}}}}},
                       {"spec", {{"storageClassName", "late"}}}})));
    ASSERT_TRUE(cluster_.events.WaitFor("said the driver"));
  }
  void AddNode(const std::string& name, const std::string& zone) {
    cluster_.Put(MakeNode(name, {{"metadata", {{"labels", {{"zone", zone}}}}}}));
    cluster_.Put(MakeCsiNode(name, {"zone"}));
  }
};

class LaterFailureTest : public UnknownOutcomeTest,
                         public ::testing::WithParamInterface<StatusCode> {};
// With a selected node; one that has no room is given up (selected_node_test.cc).
class LaterFailureOnNodeTest : public LaterFailureTest {};

TEST_P(LaterFailureTest, DoesNotAbandonTheVolumeOfADeletedClaim) {
  Begin();
  LoseThenFail(GetParam());
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(cluster_.events.WaitFor("said the driver"));
  Delete(Claim::kInfo, "default", "data");
  ASSERT_TRUE(script().WaitFor("CreateVolume", script().Count("CreateVolume") + 3));
  EXPECT_FALSE(cluster_.Has<Claim>("default", "data"));
  EXPECT_TRUE(HasIntent("uid-data"));
  Relent();
  ASSERT_TRUE(WaitVolume("pvc-uid-data")) << "the volume is nobody's";
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
}

TEST_P(LaterFailureOnNodeTest, LeavesTheSameRequestAsItIs) {
  BeginOnNode();
  LoseThenFail(GetParam());
  FailOnNode();
  ASSERT_TRUE(script().WaitFor("CreateVolume", script().Count("CreateVolume") + 3));
  EXPECT_TRUE(GetClaim("data").has_annotation(kSelectedNode));
  EXPECT_TRUE(HasIntent("uid-data"));
  Relent();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto requests = CreateRequests();
  for (const auto& request : requests) {
    EXPECT_EQ(request.SerializeAsString(), requests[0].SerializeAsString());
  }
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_P(LaterFailureOnNodeTest, TakesBackWhatWasMadeBeforeAnotherRequest) {
  BeginOnNode();
  std::atomic<bool> gives_back = false;
  script().AfterEffect("CreateVolume", [&](const google::protobuf::Message& message) {
    if (script().Count("CreateVolume") == 1) {
      return base::Error(StatusCode::kDeadlineExceeded, "slow");
    }
    const auto& request = static_cast<const csi::v1::CreateVolumeRequest&>(message);
    const bool is_first = request.accessibility_requirements().requisite_size() == 1;
    const bool succeeds = gives_back && (is_first || script().Count("DeleteVolume") > 0);
    return succeeds ? base::OkStatus() : base::Error(GetParam(), "said the driver");
  });
  FailOnNode();
  AddNode("node-b", "b");  // the request names the zones of all nodes
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return CreateRequests().back().accessibility_requirements().requisite_size() == 2; }));
  EXPECT_TRUE(HasIntent("uid-data"));
  gives_back = true;
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  cluster_.Stop();
}

TEST_P(LaterFailureOnNodeTest, GivesUpANodeThatIsGone) {
  BeginOnNode();
  LoseThenFail(GetParam());
  FailOnNode();
  cluster_.client.Remove(api::CsiNode::kInfo, "", "node-a");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_TRUE(HasIntent("uid-data")) << "the volume on the node is nobody's";
}

INSTANTIATE_TEST_SUITE_P(All, LaterFailureTest,
                         ::testing::Values(StatusCode::kAlreadyExists,
                                           StatusCode::kResourceExhausted,
                                           StatusCode::kPermissionDenied,
                                           StatusCode::kUnauthenticated, StatusCode::kInternal,
                                           StatusCode::kUnknown, StatusCode::kFailedPrecondition),
                         [](const auto& info) { return std::string(base::CodeName(info.param)); });
INSTANTIATE_TEST_SUITE_P(All, LaterFailureOnNodeTest,
                         ::testing::Values(StatusCode::kAlreadyExists,
                                           StatusCode::kPermissionDenied, StatusCode::kInternal,
                                           StatusCode::kUnknown, StatusCode::kFailedPrecondition),
                         [](const auto& info) { return std::string(base::CodeName(info.param)); });

TEST_F(UnknownOutcomeTest, EndsWhereTheDriverSaysThatTheSameRequestCannotBe) {
  Begin();
  script().Fail("CreateVolume", base::Error(StatusCode::kDeadlineExceeded, "slow"),
                rpc::CallScript::kAlways);
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(cluster_.events.WaitFor("code = DeadlineExceeded"));
  Delete(Claim::kInfo, "default", "data");
  script().Fail("CreateVolume", base::Error(StatusCode::kOutOfRange, "too much"),
                rpc::CallScript::kAlways);
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), IsEmpty());
}

TEST_F(UnknownOutcomeTest, OfAnOlderVersionEndsOnlyWithTheVolume) {
  cluster_.Put(Held("data"));
  Delete(Claim::kInfo, "default", "data");
  cluster_.Add<Provisioner>(cluster_.AddDriver(NoTopology()), Fast());
  script().Fail("CreateVolume", base::Error(StatusCode::kInvalidArgument, "no"), 4);
  cluster_.Put(MakeClass("fast"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(UnknownOutcomeTest, OfAnOlderVersionMarksTheClaimNoLongerThanNeeded) {
  cluster_.Put(Held("data"));
  Begin();
  script().Hang("CreateVolume");
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  EXPECT_FALSE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
  EXPECT_TRUE(HasIntent("uid-data"));
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(UnknownOutcomeTest, TheIntentOfARefusedClaimIsReleased) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"), rpc::CallScript::kAlways);
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("code = Internal desc = no"));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(UnknownOutcomeTest, AnOrderlyEndWritesWhatIsSettled) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"), rpc::CallScript::kAlways);
  script().Hang("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  script().Release("CreateVolume");
  ASSERT_TRUE(cluster_.events.WaitFor("code = Internal desc = no"));
  cluster_.Stop();
  EXPECT_FALSE(HasIntent("uid-data"));
}

TEST_F(UnknownOutcomeTest, AnOrderlyEndKeepsTheIntentsOfUnknownOutcomes) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  // When the driver becomes ready, the provisioner looks at all claims again at once. So that comes
  // first.
  cluster_.Put(MakeClaim("first", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-first"));
  script().LoseAnswer("CreateVolume");
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("code = Unavailable"));
  cluster_.Stop();
  EXPECT_TRUE(HasIntent("uid-data"));
}

TEST_F(UnknownOutcomeTest, ACallThatWasNeverSentLeavesNoIntent) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.Put(MakeClaim("first", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-first"));
  cluster_.driver->GoAway();
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(
      cluster_.events.WaitFor("ProvisioningFailed default/data: rpc error: code = Unavailable"));
  EXPECT_TRUE(WaitNoIntent("uid-data")) << "no driver was ever asked for it";
}

TEST_F(UnknownOutcomeTest, AHeldClaimWithoutItsClassSaysWhy) {
  cluster_.Put(Held("data", {{"spec", {{"storageClassName", "gone"}}}}));
  Begin();
  ASSERT_TRUE(
      cluster_.events.WaitFor("Warning ProvisioningCleanupFailed default/data: its class is gone, "
                              "and a volume may exist in "
                              "the driver: create the class again"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  cluster_.Put(MakeClass("gone"));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(UnknownOutcomeTest, AVolumeThatCannotBeTakenBackIsSaidAndKeepsTheIntent) {
  // The driver has one of that name already, in another zone than asked for.
  rpc::FakeCsiDriver::Options driver;
  driver.topology = {{"zone", "b"}};
  cluster_.Put(MakeNode("node-a", {{"metadata", {{"labels", {{"zone", "a"}}}}}}));
  cluster_.Put(MakeCsiNode("node-a", {"zone"}));
  Begin(driver);
  csi::v1::CreateVolumeRequest request;
  request.set_name("pvc-uid-data");
  request.mutable_capacity_range()->set_required_bytes(int64_t{1} << 30);
  request.add_volume_capabilities()->mutable_mount();
  csi::v1::CreateVolumeResponse response;
  ASSERT_TRUE(cluster_.driver->state().Handle(request, response).ok());
  script().Fail("DeleteVolume", base::Error(StatusCode::kInternal, "busy"),
                rpc::CallScript::kAlways);
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(cluster_.events.WaitFor(
      "Warning ProvisioningCleanupFailed default/data: Error cleaning provisioned volume "
      "\"pvc-uid-data\": rpc error: code = Internal desc = busy"));
  Delete(Claim::kInfo, "default", "data");
  EXPECT_TRUE(HasIntent("uid-data"));
  script().Fail("DeleteVolume", base::OkStatus(), 0);
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), IsEmpty());
}

TEST_F(ProvisionerTest, AVolumeOfAnothersUnderTheClaimsNameIsSaid) {
  cluster_.Put(MakeVolume(
      "pvc-uid-data",
      {{"spec", {{"claimRef", {{"namespace", "default"}, {"name", "data"}, {"uid", "old"}}}}}}));
  Begin();
  cluster_.Put(MakeClaim("data", Asked()));
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning ProvisioningFailed default/data: PersistentVolume "
                              "'pvc-uid-data' exists and belongs to another claim"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(ProvisionerTest, ADriverThatMakesNoVolumesIsSaid) {
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities = {DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME};
  Begin(driver);
  cluster_.Put(MakeClaim("data", Asked()));
  EXPECT_TRUE(cluster_.events.WaitFor("does not make volumes (it lacks CREATE_DELETE_VOLUME)"));
  EXPECT_FALSE(HasIntent("uid-data"));
}

TEST_F(ProvisionerTest, AFailureOfTheApiIsNotToldAsTheDrivers) {
  Begin();
  cluster_.client.FailNext("create", "leases", base::Error(StatusCode::kInvalidArgument, "not so"));
  cluster_.Put(MakeClaim("data", Asked()));
  EXPECT_TRUE(cluster_.events.WaitFor("record what is asked for: not so"));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

}  // namespace
}  // namespace berth::controllers::provisioner
