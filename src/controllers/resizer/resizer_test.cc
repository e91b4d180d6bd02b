#include "controllers/resizer/resizer.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::resizer {
namespace {

[[maybe_unused]] const auto* const kRights =
    CheckRightsOf("resizer", "csi/base/rbac/resizer.yaml", {"get persistentvolumes", "get pods"});

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

constexpr char kInUse[] =
    "Warning VolumeResizeFailed default/data: Unable to expand default/data because CSI driver "
    "fake.csi.example.com only supports offline expansion and volume is currently in-use";

std::vector<std::string> ConditionTypes(const Claim& claim) {
  std::vector<std::string> types;
  for (const Json& condition : claim.conditions()) {
    types.push_back(base::json::String(condition, {"type"}));
  }
  return types;
}

class ResizerTest : public ::testing::Test {
 protected:
  void Begin(rpc::FakeCsiDriver::Options driver = ControllerOnly(), Options options = Fast()) {
    cluster_.Add<Resizer>(cluster_.AddDriver(std::move(driver)), options);
    cluster_.AddVolume("pv-1", BoundVolume("data"));
    cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
    cluster_.Start();
  }
  static rpc::FakeCsiDriver::Options ControllerOnly() {
    rpc::FakeCsiDriver::Options options;
    options.node_capabilities = {};
    return options;
  }
  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    return options;
  }
  // Nothing is tried again while a test runs, unless an event ends the backoff.
  static Options Slow() {
    Options options;
    options.retry_start = options.retry_max = std::chrono::minutes(10);
    return options;
  }
  // What a person does with kubectl.
  void RequestSize(const std::string& size) {
    Claim claim = GetClaim();
    claim.Set({"spec", "resources", "requests", "storage"}, size);
    cluster_.Put(claim);
  }

  rpc::CallScript& script() { return cluster_.driver->script(); }
  Claim GetClaim() { return cluster_.Get<Claim>("default", "data"); }
  Volume GetVolume() { return cluster_.Get<Volume>("", "pv-1"); }

  FakeCluster cluster_;
};

TEST_F(ResizerTest, WithoutANodesPartTheClaimHasItsNewSize) {
  Begin();
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_EQ(GetVolume().capacity(), "2Gi");
  EXPECT_EQ(GetClaim().resize_status(), "");
  EXPECT_EQ(GetClaim().allocated_storage(), "2Gi");
  EXPECT_THAT(GetClaim().conditions(), IsEmpty());
  const auto request =
      script().LastRequest<csi::v1::ControllerExpandVolumeRequest>("ControllerExpandVolume");
  EXPECT_EQ(request.capacity_range().required_bytes(), int64_t{2} << 30);
  EXPECT_EQ(request.volume_id(), GetVolume().csi().volume_handle());
  EXPECT_TRUE(request.volume_capability().has_mount());
  EXPECT_TRUE(
      cluster_.events.WaitFor("Normal Resizing default/data: External resizer is resizing"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal VolumeResizeSuccessful default/data"));
}

TEST_F(ResizerTest, TheNodesPartIsAskedFor) {
  Begin({});
  RequestSize("2Gi");
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim().resize_status() == "NodeResizePending"; }));
  EXPECT_EQ(GetVolume().capacity(), "2Gi");
  EXPECT_EQ(GetVolume().annotation("volume.alpha.kubernetes.io/pre-resize-capacity"), "1Gi");
  EXPECT_EQ(GetClaim().capacity(), "1Gi");
  EXPECT_THAT(ConditionTypes(GetClaim()), ElementsAre("Resizing", "FileSystemResizePending"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal FileSystemResizeRequired default/data"));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 1);
}

TEST_F(ResizerTest, TheNodesEndTakesTheOldCapacityOff) {
  Begin({});
  RequestSize("2Gi");
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim().resize_status() == "NodeResizePending"; }));
  Claim claim = GetClaim();
  claim.mutable_json()["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "2Gi"}}}};
  cluster_.Put(claim);
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return !GetVolume().has_annotation("volume.alpha.kubernetes.io/pre-resize-capacity");
  }));
}

TEST_F(ResizerTest, TheTargetIsDurableBeforeTheDriverIsAsked) {
  Begin();
  script().Hang("ControllerExpandVolume");
  RequestSize("2Gi");
  ASSERT_TRUE(script().WaitFor("ControllerExpandVolume"));
  EXPECT_EQ(GetClaim().resize_status(), "ControllerResizeInProgress");
  EXPECT_EQ(GetClaim().allocated_storage(), "2Gi");
  EXPECT_THAT(ConditionTypes(GetClaim()), ElementsAre("Resizing"));
  script().Release("ControllerExpandVolume");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
}

TEST_F(ResizerTest, ATargetInProgressIsFinishedBeforeASmallerOneCounts) {
  // Stopped between the driver's call and its answer; meanwhile the request was reduced.
  cluster_.Add<Resizer>(cluster_.AddDriver(ControllerOnly()), Fast());
  cluster_.AddVolume("pv-1", BoundVolume("data"));
  cluster_.Put(MakeClaim(
      "data",
      Merged(BoundClaim("pv-1"),
             {{"spec", {{"resources", {{"requests", {{"storage", "2Gi"}}}}}}},
              {"status",
               {{"allocatedResources", {{"storage", "5Gi"}}},
                {"allocatedResourceStatuses", {{"storage", "ControllerResizeInProgress"}}}}}})));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "5Gi"; }));
  EXPECT_EQ(GetVolume().capacity(), "5Gi");
}

TEST_F(ResizerTest, AnInfeasibleTargetIsGivenUpForASmallerOne) {
  rpc::FakeCsiDriver::Options driver = ControllerOnly();
  driver.capacity_bytes = int64_t{10} << 30;
  Begin(driver);
  RequestSize("100Gi");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return GetClaim().resize_status() == "ControllerResizeInfeasible"; }));
  EXPECT_THAT(ConditionTypes(GetClaim()), ElementsAre("Resizing", "ControllerResizeError"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning VolumeResizeFailed default/data"));
  EXPECT_EQ(GetVolume().capacity(), "1Gi");
  RequestSize("3Gi");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "3Gi"; }));
  EXPECT_EQ(GetClaim().resize_status(), "");
}

TEST_F(ResizerTest, AnUnknownOutcomeIsAskedAgain) {
  Begin();
  script().LoseAnswer("ControllerExpandVolume");
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 2);
}

TEST_F(ResizerTest, WhatIsInUseIsAskedForAgainAtTheEndOfItsUse) {
  Begin(ControllerOnly(), Slow());
  cluster_.Put(MakePod("web", "data"));  // it has no node yet
  cluster_.Put(MakePod("other", "data", {{"status", {{"phase", "Running"}}}}));
  script().Fail("ControllerExpandVolume",
                base::Error(StatusCode::kFailedPrecondition, "volume is published"), 1);
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.events.WaitFor("volume is published"));
  RequestSize("3Gi");
  ASSERT_TRUE(cluster_.events.WaitFor(kInUse));
  EXPECT_EQ(GetClaim().allocated_storage(), "3Gi");
  EXPECT_THAT(ConditionTypes(GetClaim()), ElementsAre("Resizing"));
  cluster_.client.Remove(api::Pod::kInfo, "default", "other");
  RequestSize("4Gi");
  ASSERT_TRUE(cluster_.events.WaitFor(kInUse, 2));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 1);
  cluster_.Put(MakePod("web", "data", {{"status", {{"phase", "Succeeded"}}}}));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "4Gi"; }));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 2);
}

TEST_F(ResizerTest, UseIsToldAtEachTry) {
  Begin();
  cluster_.Put(MakePod("web", "data"));
  script().Fail("ControllerExpandVolume",
                base::Error(StatusCode::kFailedPrecondition, "volume is published"), 1);
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.events.WaitFor(kInUse, 3));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 1);
}

TEST_F(ResizerTest, ThePodForWhichAClaimWasMadeIsNoUse) {
  Begin();
  const Json volumes = Json::array(
      {{{"name", "x"},
        {"ephemeral", {{"volumeClaimTemplate", {{"spec", {{"storageClassName", "fast"}}}}}}}}});
  cluster_.AddVolume("pv-x", BoundVolume("web-x"));
  cluster_.Put(
      MakePod("web", "", {{"spec", {{"volumes", volumes}}}, {"status", {{"phase", "Running"}}}}));
  script().Fail("ControllerExpandVolume",
                base::Error(StatusCode::kFailedPrecondition, "volume is published"), 2);
  Json larger = BoundClaim("pv-x");
  larger["spec"]["resources"]["requests"]["storage"] = "2Gi";
  cluster_.Put(MakeClaim("web-x", larger));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Claim>("default", "web-x").capacity() == "2Gi"; }));
  EXPECT_EQ(cluster_.events.Count("currently in-use"), 0);
}

TEST_F(ResizerTest, AClaimThatIsSeenBeforeItsVolumeIsTriedAgain) {
  cluster_.Add<Resizer>(cluster_.AddDriver(ControllerOnly()), Fast());
  Json larger = BoundClaim("pv-late");
  larger["spec"]["resources"]["requests"]["storage"] = "2Gi";
  cluster_.Put(MakeClaim("late", larger));
  cluster_.Start();
  cluster_.AddVolume("pv-late", BoundVolume("late"));
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Claim>("default", "late").capacity() == "2Gi"; }));
}

TEST_F(ResizerTest, ASizeThatTheDriverDoesNotSayIsNoLessThanBefore) {
  Json has_more = BoundVolume("data");
  has_more["spec"]["capacity"]["storage"] = "5Gi";
  cluster_.Add<Resizer>(cluster_.AddDriver(ControllerOnly()), Fast());
  cluster_.driver->state().options().on_expand =
      [](csi::v1::ControllerExpandVolumeResponse& response) { response.set_capacity_bytes(0); };
  cluster_.AddVolume("pv-1", has_more);
  Json larger = BoundClaim("pv-1");
  larger["spec"]["resources"]["requests"]["storage"] = "2Gi";
  cluster_.Put(MakeClaim("data", larger));
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "5Gi"; }));
  EXPECT_EQ(GetVolume().capacity(), "5Gi");
}

TEST_F(ResizerTest, WhereEachNodeHasAResizerItGrowsWhatItsNodeReaches) {
  // A Go program has no such mode, nor its role the right.
  cluster_.allowed.Grant(
      {{{"apiGroups", {""}}, {"resources", {"nodes"}}, {"verbs", {"get", "list", "watch"}}}});
  Options options = Fast();
  options.node_name = "node-a";
  cluster_.Put(MakeNode("node-a", {{"metadata", {{"labels", {{"host", "b"}}}}}}));
  cluster_.Add<Resizer>(cluster_.AddDriver(ControllerOnly()), options);
  const Json expression = {{"key", "host"}, {"operator", "In"}, {"values", {"a"}}};
  const Json terms = Json::array({{{"matchExpressions", Json::array({expression})}}});
  cluster_.AddVolume(
      "pv-1",
      Merged(BoundVolume("data"),
             {{"spec", {{"nodeAffinity", {{"required", {{"nodeSelectorTerms", terms}}}}}}}}));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.AddVolume("pv-near", BoundVolume("near"));
  Json near = BoundClaim("pv-near");
  near["spec"]["resources"]["requests"]["storage"] = "2Gi";
  cluster_.Put(MakeClaim("near", near));
  cluster_.Start();
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Claim>("default", "near").capacity() == "2Gi"; }));
  EXPECT_EQ(script().Count("ControllerExpandVolume"), 1);
  // The node gets its label, or another.
  cluster_.Put(MakeNode("node-a", {{"metadata", {{"labels", {{"host", "a"}}}}}}));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
}

TEST_F(ResizerTest, AfterAStopBehindTheVolumesWriteTheClaimFollows) {
  cluster_.Add<Resizer>(cluster_.AddDriver(ControllerOnly()), Fast());
  Json more = BoundVolume("data");
  more["spec"]["capacity"]["storage"] = "2Gi";
  cluster_.AddVolume("pv-1", more);
  cluster_.Put(MakeClaim(
      "data",
      Merged(BoundClaim("pv-1"),
             {{"spec", {{"resources", {{"requests", {{"storage", "2Gi"}}}}}}},
              {"status",
               {{"allocatedResources", {{"storage", "2Gi"}}},
                {"allocatedResourceStatuses", {{"storage", "ControllerResizeInProgress"}}}}}})));
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_EQ(GetClaim().resize_status(), "");
}

TEST_F(ResizerTest, AfterAFinalFailureASmallerRequestTakesTheTargetsPlace) {
  Begin(ControllerOnly(), Slow());
  script().Fail("ControllerExpandVolume", base::Error(StatusCode::kInternal, "broken"));
  RequestSize("5Gi");
  ASSERT_TRUE(cluster_.events.WaitFor("broken"));
  EXPECT_EQ(GetClaim().resize_status(), "ControllerResizeInProgress");
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_EQ(GetVolume().capacity(), "2Gi");
}

TEST_F(ResizerTest, AfterAnUnknownOutcomeASmallerRequestDoesNot) {
  Begin(ControllerOnly(), Slow());
  script().Fail("ControllerExpandVolume", base::Error(StatusCode::kDeadlineExceeded, "too slow"));
  RequestSize("5Gi");
  ASSERT_TRUE(cluster_.events.WaitFor("too slow"));
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "5Gi"; }));
}

TEST_F(ResizerTest, WhatCannotBeIsNotTriedAgainAtOnce) {
  Options slow = Fast();
  slow.retry_max = std::chrono::minutes(10);
  Begin(ControllerOnly(), slow);
  script().Fail("ControllerExpandVolume", base::Error(StatusCode::kOutOfRange, "never"),
                rpc::CallScript::kAlways);
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return GetClaim().resize_status() == "ControllerResizeInfeasible"; }));
  EXPECT_FALSE(script().WaitFor("ControllerExpandVolume", 2, std::chrono::milliseconds(100)));
}

TEST_F(ResizerTest, WhatANodeRefusedIsOfferedAgainAtOnce) {
  Begin({}, Slow());
  RequestSize("2Gi");
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim().resize_status() == "NodeResizePending"; }));
  Claim claim = GetClaim();
  claim.Set({"status", "allocatedResourceStatuses", "storage"}, "NodeResizeInfeasible");
  cluster_.Put(claim);
  EXPECT_TRUE(script().WaitFor("ControllerExpandVolume", 2));
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim().resize_status() == "NodeResizePending"; }));
}

TEST_F(ResizerTest, WithoutHandlingOfUseItIsTriedAgain) {
  Options options = Fast();
  options.handle_volume_inuse_error = false;
  Begin(ControllerOnly(), options);
  cluster_.Put(MakePod("web", "data",
                       {{"spec", {{"nodeName", "node-a"}}}, {"status", {{"phase", "Running"}}}}));
  script().Fail("ControllerExpandVolume",
                base::Error(StatusCode::kFailedPrecondition, "volume is published"), 2);
  RequestSize("2Gi");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_EQ(cluster_.informers.Find(api::Pod::kInfo), nullptr);
}

TEST_F(ResizerTest, ADriverThatCannotExpandIsSaid) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  driver.node_capabilities = {};
  Begin(driver);
  RequestSize("2Gi");
  EXPECT_TRUE(cluster_.events.WaitFor("cannot expand volumes"));
  EXPECT_EQ(GetClaim().resize_status(), "");
}

TEST_F(ResizerTest, OtherConditionsStay) {
  Begin();
  Claim claim = GetClaim();
  claim.Set({"status", "conditions"}, Json::array({{{"type", "Unrelated"}, {"status", "True"}}}));
  claim.Set({"spec", "resources", "requests", "storage"}, "2Gi");
  cluster_.Put(claim);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim().capacity() == "2Gi"; }));
  EXPECT_THAT(ConditionTypes(GetClaim()), ElementsAre("Unrelated"));
}

}  // namespace
}  // namespace berth::controllers::resizer
