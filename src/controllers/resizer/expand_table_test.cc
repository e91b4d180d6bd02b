// Every transition of an expansion: objects in, writes and CSI calls out.
#include "api/quantity.h"
#include "controllers/resizer/fake_resizer_case.h"

namespace berth::controllers::resizer {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using NodeRpc = rpc::FakeCsiState::NodeRpc;

Json Asks(const std::string& size, Json status = Json::object()) {
  return {{"spec", {{"resources", {{"requests", {{"storage", size}}}}}}},
          {"status", std::move(status)}};
}
Json Is(const std::string& status, const std::string& allocated, Json more = Json::object()) {
  more["allocatedResources"] = {{"storage", allocated}};
  if (!status.empty()) more["allocatedResourceStatuses"] = {{"storage", status}};
  return more;
}
Json Has(const std::string& size) { return {{"spec", {{"capacity", {{"storage", size}}}}}}; }
Json WithCondition(const std::string& type, const std::string& message) {
  return {{"conditions", {{{"type", type}, {"status", "True"}, {"message", message}}}}};
}
Json NotRequired() {
  return {{"metadata",
           {{"annotations", {{"volume.kubernetes.io/node-expansion-not-required", "true"}}}}}};
}

Write Begins(const std::string& size) {
  return {"patch pvc",
          {fmt::format(R"("allocatedResources":{{"storage":"{}"}})", size),
           R"("allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"})",
           R"("type":"Resizing")"}};
}
Write Grows(const std::string& size) {
  return {"patch pv", {fmt::format(R"("capacity":{{"storage":"{}"}})", size)}};
}
// The capacity from before the expansion, which the node needs.
const Write kKeepsOldCapacity{"patch pv",
                              {R"("volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi")"}};
Write Finishes(const std::string& size) {
  return {"patch pvc",
          {fmt::format(R"("capacity":{{"storage":"{}"}})", size),
           R"("allocatedResourceStatuses":{"storage":null})", R"("conditions":[])",
           R"("volume.kubernetes.io/node-expansion-not-required":"true")"}};
}
const Write kLeftToTheNode{"patch pvc",
                           {R"("allocatedResourceStatuses":{"storage":"NodeResizePending"})",
                            R"("type":"FileSystemResizePending")", "Waiting for user to"}};
Write Failed(const std::string& message) {
  return {"patch pvc", {R"("type":"ControllerResizeError")", message}};
}
Write Infeasible(const std::string& message) {
  return {"patch pvc",
          {R"("allocatedResourceStatuses":{"storage":"ControllerResizeInfeasible"})",
           R"("type":"ControllerResizeError")", message}};
}

const std::string kResizing =
    "Normal Resizing default/data: External resizer is resizing volume pv-1";
const std::string kSucceeded =
    "Normal VolumeResizeSuccessful default/data: Resize volume succeeded";
const std::string kRequired =
    "Normal FileSystemResizeRequired default/data: Require file system resize of volume on node";
const std::string kNobody =
    "Warning VolumeResizeFailed default/data: driver \"fake.csi.example.com\" cannot expand "
    "volumes, neither in the controller nor on nodes";
std::string SaysFailed(const std::string& why) {
  return fmt::format(
      "Warning VolumeResizeFailed default/data: resize volume \"pv-1\" by resizer "
      "\"fake.csi.example.com\" failed: {}",
      why);
}
std::string Call(const std::string& size) { return "ControllerExpandVolume " + size; }

// The driver's nodes have a part in an expansion.
void NodePart(FakeCluster& cluster) {
  cluster.driver->state().options().node_capabilities = {NodeRpc::EXPAND_VOLUME};
}
void NoControllerPart(FakeCluster& cluster) {
  cluster.driver->state().options().controller_capabilities = {
      DriverInfo::Rpc::CREATE_DELETE_VOLUME};
}

void NodesAlone(FakeCluster& cluster) {
  NodePart(cluster);
  NoControllerPart(cluster);
}
std::function<void(FakeCluster&)> FailsAndConflicts(StatusCode code, const std::string& message) {
  return [=](FakeCluster& cluster) {
    Fails("ControllerExpandVolume", code, message)(cluster);
    Conflict(cluster);
  };
}

class ExpandTableTest : public CaseTest {
 protected:
  std::vector<std::string> Calls() const {
    return CallsOf<csi::v1::ControllerExpandVolumeRequest>(
        "ControllerExpandVolume", +[](const csi::v1::ControllerExpandVolumeRequest& request) {
          return api::FormatBytes(request.capacity_range().required_bytes());
        });
  }
  // The resizer has gone through its queue.
  void WaitForSentinel() {
    cluster_.Put(MakeClaim(
        "sentinel", Merged(BoundClaim("pv-sentinel"),
                           {{"spec", {{"resources", {{"requests", {{"storage", "2Gi"}}}}}}}})));
    ASSERT_TRUE(cluster_.events.WaitFor("default/sentinel"));
  }
};

TEST_P(ExpandTableTest, WritesAndCalls) {
  rpc::FakeCsiDriver::Options driver;
  driver.node_capabilities = {};
  Run(GetParam(), driver, OnceOnly());
  if (GetParam().writes.empty() && !GetParam().calls.empty()) {
    ASSERT_TRUE(cluster_.driver->script().WaitFor("ControllerExpandVolume"));
  }
  WaitForSentinel();
  Check(GetParam(), Calls());
}

std::vector<Case> PlainCases() {
  return {
      {"WhatIsLargeEnoughIsLeftAlone", Asks("1Gi"), nullptr, {}, {}, {}, {}},
      {"AllOfItInTheController",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       {}},
      {"TheNodesPartIsLeftToIt",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"),
        {"patch pv",
         {R"("capacity":{"storage":"2Gi"})",
          R"("volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi")"}},
        kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"TheCapacityBeforeAnExpansionThatHasNotEndedStays",
       Asks("3Gi", Is("NodeResizePending", "3Gi")),
       {{"metadata",
         {{"annotations", {{"volume.alpha.kubernetes.io/pre-resize-capacity", "512Mi"}}}}},
        {"spec", {{"capacity", {{"storage", "2Gi"}}}}}},
       {Begins("3Gi"),
        {"patch pv", {R"("},"spec":{"capacity":{"storage":"3Gi"}}})"}},
        kLeftToTheNode},
       {Call("3Gi")},
       {kResizing, kRequired},
       NodePart},
      {"TheCapacityBeforeAnExpansionThatHasEndedIsReplaced",
       Asks("3Gi"),
       {{"metadata",
         {{"annotations", {{"volume.alpha.kubernetes.io/pre-resize-capacity", "512Mi"}}}}}},
       {{"patch pv", {R"("volume.alpha.kubernetes.io/pre-resize-capacity":null)"}},
        Begins("3Gi"),
        {"patch pv",
         {R"("spec":{"capacity":{"storage":"3Gi"}})",
          R"("volume.alpha.kubernetes.io/pre-resize-capacity":"1Gi")"}},
        kLeftToTheNode},
       {Call("3Gi")},
       {kResizing, kRequired},
       NodePart},
      {"TheCapacityBeforeAnExpansionIsForgottenAtItsEnd",
       Asks("1Gi"),
       {{"metadata",
         {{"annotations", {{"volume.alpha.kubernetes.io/pre-resize-capacity", "512Mi"}}}}}},
       {{"patch pv", {R"("volume.alpha.kubernetes.io/pre-resize-capacity":null)"}}},
       {},
       {},
       {}},
      {"WithoutACallWhereNodesExpandAlone",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), kLeftToTheNode},
       {},
       {kResizing, kRequired},
       NodesAlone},
      {"NotAtAllWhereNobodyCan", Asks("2Gi"), nullptr, {}, {}, {kNobody}, NoControllerPart},
      {"ASizeIsWrittenAsTheClaimSaysIt",
       Asks("2G"),
       nullptr,
       {Begins("2G"), Grows("1953125Ki"), Finishes("1953125Ki")},
       {Call("1953125Ki")},
       {kResizing, kSucceeded},
       {}},
      {"ASizeThatNobodyRoundsIsWrittenToTheVolumeAsTheClaimSaysIt",
       Asks("2G"),
       nullptr,
       {Begins("2G"), Grows("2G"), kLeftToTheNode},
       {},
       {kResizing, kRequired},
       NodesAlone},
      {"TheBeginningTakesTheMarkOfTheLastExpansionAway",
       Merged(Asks("2Gi"), NotRequired()),
       nullptr,
       {{"patch pvc",
         {R"("volume.kubernetes.io/node-expansion-not-required":null)",
          R"("allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"})"}},
        Grows("2Gi"),
        kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"AnotherDriversVolumeIsLeftAlone",
       Asks("2Gi"),
       {{"spec", {{"csi", {{"driver", "another.example.com"}}}}}},
       {},
       {},
       {},
       {}},
      {"AnotherClaimsVolumeIsLeftAlone",
       Asks("2Gi"),
       {{"spec", {{"claimRef", {{"uid", "uid-of-another"}}}}}},
       {},
       {},
       {},
       {}},
      {"AMissingSecretIsSaidBeforeAnythingIsBegun",
       Asks("2Gi"),
       {{"spec",
         {{"csi", {{"controllerExpandSecretRef", {{"name", "keys"}, {"namespace", "vault"}}}}}}}},
       {Failed("read secret 'vault/keys'")},
       {},
       {SaysFailed("read secret 'vault/keys'")},
       {}},
      {"AConflictIsComputedAnew",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Begins("2Gi"), Grows("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       Conflict},
      {"AnApiThatIsAwayIsNoFailureOfTheClaim",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Begins("2Gi"), Grows("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "persistentvolumeclaims/status",
                                 Error(StatusCode::kUnavailable, "refused"));
       }},
  };
}

std::vector<Case> FailureCases() {
  return {
      {"WhatCannotBeIsInfeasible",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Infeasible("code = OutOfRange")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = OutOfRange")},
       Fails("ControllerExpandVolume", StatusCode::kOutOfRange, "too much")},
      {"WhatTheDriverFindsInvalidIsInfeasible",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Infeasible("code = InvalidArgument")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = InvalidArgument")},
       Fails("ControllerExpandVolume", StatusCode::kInvalidArgument, "no such size")},
      {"AVolumeThatTheDriverDoesNotFindIsInfeasible",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Infeasible("code = NotFound")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = NotFound")},
       Fails("ControllerExpandVolume", StatusCode::kNotFound, "no such volume")},
      {"AForbiddenBeginningIsSaidAndNothingCalled",
       Asks("2Gi"),
       nullptr,
       {{"patch pvc", {}}, Failed("write the target to the claim: forbidden")},
       {},
       {SaysFailed("write the target to the claim: forbidden")},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "persistentvolumeclaims/status",
                                 Error(StatusCode::kPermissionDenied, "forbidden"));
       }},
      {"AForbiddenVolumeIsSaidAndTheTargetStays",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), {"patch pv", {}}, Failed("write the PersistentVolume: forbidden")},
       {Call("2Gi")},
       {kResizing, SaysFailed("write the PersistentVolume: forbidden")},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "persistentvolumes",
                                 Error(StatusCode::kPermissionDenied, "forbidden"));
       }},
      {"AFinalFailureKeepsTheTarget",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Failed("code = Internal")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = Internal")},
       Fails("ControllerExpandVolume", StatusCode::kInternal, "broken")},
      {"AnUnknownOutcomeKeepsTheTarget",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = DeadlineExceeded")},
       Fails("ControllerExpandVolume", StatusCode::kDeadlineExceeded, "slow")},
      {"TheSameFailureIsNotWrittenAgain",
       Asks("2Gi",
            Is("ControllerResizeInProgress", "2Gi",
               WithCondition("ControllerResizeError",
                             "failed to expand pvc with rpc error: code = Internal desc = no"))),
       nullptr,
       {},
       {Call("2Gi")},
       {SaysFailed("rpc error: code = Internal")},
       Fails("ControllerExpandVolume", StatusCode::kInternal, "no")},
      {"WhatCannotBeIsWrittenAnewAfterAConflict",
       Asks("2Gi", Is("ControllerResizeInProgress", "2Gi")),
       nullptr,
       {Infeasible("code = OutOfRange"), Infeasible("code = OutOfRange")},
       {Call("2Gi")},
       {SaysFailed("rpc error: code = OutOfRange")},
       FailsAndConflicts(StatusCode::kOutOfRange, "too much")},
      {"AFinalFailureIsWrittenAnewAfterAConflict",
       Asks("2Gi", Is("ControllerResizeInProgress", "2Gi")),
       nullptr,
       {Failed("code = Internal"), Failed("code = Internal")},
       {Call("2Gi")},
       {SaysFailed("rpc error: code = Internal")},
       FailsAndConflicts(StatusCode::kInternal, "broken")},
      {"WhatIsInUseWaits",
       Asks("2Gi"),
       nullptr,
       {Begins("2Gi"), Failed("code = FailedPrecondition")},
       {Call("2Gi")},
       {kResizing, SaysFailed("rpc error: code = FailedPrecondition")},
       [](FakeCluster& cluster) {
         cluster.Put(
             MakePod("web", "data",
                     {{"spec", {{"nodeName", "node-a"}}}, {"status", {{"phase", "Running"}}}}));
         cluster.driver->script().Fail("ControllerExpandVolume",
                                       Error(StatusCode::kFailedPrecondition, "in use"),
                                       rpc::CallScript::kAlways);
       }},
  };
}

// A process that starts finds what an earlier one, or another program, left.
std::vector<Case> RecoveryCases() {
  return {
      {"InProgressIsFinishedBeforeASmallerRequestCounts",
       Asks("2Gi", Is("ControllerResizeInProgress", "5Gi")),
       nullptr,
       {Grows("5Gi"), Finishes("5Gi")},
       {Call("5Gi")},
       {kSucceeded},
       {}},
      {"InProgressIsFinishedBeforeALargerOneCounts",
       Asks("9Gi", Is("ControllerResizeInProgress", "5Gi")),
       nullptr,
       {Grows("5Gi"), Finishes("5Gi"), Begins("9Gi"), Grows("9Gi"), Finishes("9Gi")},
       {Call("5Gi"), Call("9Gi")},
       {kResizing, kSucceeded},
       {}},
      {"BehindTheVolumesWriteTheClaimFollows",
       Asks("2Gi", Is("ControllerResizeInProgress", "2Gi")),
       Has("2Gi"),
       {Finishes("2Gi")},
       {Call("2Gi")},
       {kSucceeded},
       {}},
      {"InfeasibleIsTriedAgain",
       Asks("2Gi", Is("ControllerResizeInfeasible", "2Gi")),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       {}},
      {"InfeasibleGivesWayToASmallerRequest",
       Asks("2Gi", Is("ControllerResizeInfeasible", "100Gi")),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       {}},
      {"TheNodeAtWorkIsLeftAlone",
       Asks("2Gi", Is("NodeResizePending", "2Gi")),
       Has("2Gi"),
       {},
       {},
       {},
       {}},
      {"ALargerRequestWaitsForTheNode",
       Asks("9Gi", Is("NodeResizeInProgress", "2Gi")),
       Has("2Gi"),
       {},
       {},
       {},
       {}},
      {"AVolumeBehindItsNodesTargetIsFinished",
       Asks("2Gi", Is("NodeResizePending", "2Gi")),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"WithoutATargetANodesWorkIsNoReasonToWait",
       Asks("2Gi", {{"allocatedResourceStatuses", {{"storage", "NodeResizePending"}}}}),
       nullptr,
       {Begins("2Gi"), Grows("2Gi"), kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"TheNodeAtWorkIsLeftAloneIfTheVolumeServesTheRequest",
       Asks("2Gi", Is("NodeResizePending", "5Gi")),
       Has("3Gi"),
       {},
       {},
       {},
       {}},
      {"TheLastTargetIsFinishedIfTheVolumeServesASmallerRequest",
       Asks("2Gi", Is("ControllerResizeInfeasible", "5Gi")),
       Has("3Gi"),
       {Begins("5Gi"), Grows("5Gi"), Finishes("5Gi")},
       {Call("5Gi")},
       {kResizing, kSucceeded},
       {}},
      {"ATargetWithoutAStatusIsFinished",
       Asks("2Gi", Is("", "5Gi")),
       Has("3Gi"),
       {Begins("5Gi"), Grows("5Gi"), Finishes("5Gi")},
       {Call("5Gi")},
       {kResizing, kSucceeded},
       {}},
      {"ATargetWithoutAStatusIsFinishedWhateverConditionIsLeft",
       Asks("2Gi", Is("", "2Gi", WithCondition("FileSystemResizePending", "as it was"))),
       Has("2Gi"),
       {Begins("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       {}},
      {"WhatANodeRefusedIsOfferedAgain",
       Asks("2Gi", Is("NodeResizeInfeasible", "2Gi")),
       Has("2Gi"),
       {Begins("2Gi"), kKeepsOldCapacity, kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"WhatANodeRefusedIsOfferedAgainBeforeALargerRequestCounts",
       Asks("9Gi", Is("NodeResizeInfeasible", "2Gi")),
       Has("2Gi"),
       {Begins("2Gi"), kKeepsOldCapacity, kLeftToTheNode},
       {Call("2Gi")},
       {kResizing, kRequired},
       NodePart},
      {"WhatNodesAloneRefusedGivesWayToASmallerRequest",
       Asks("2Gi", Is("NodeResizeInfeasible", "5Gi")),
       Has("5Gi"),
       {Begins("2Gi"), Grows("2Gi"), kLeftToTheNode},
       {},
       {kResizing, kRequired},
       NodesAlone},
      {"WhatTheControllerHasGrownGivesNoWayToASmallerRequest",
       Asks("2Gi", Is("NodeResizeInfeasible", "5Gi")),
       Has("5Gi"),
       {Begins("5Gi"), kKeepsOldCapacity, kLeftToTheNode},
       {Call("5Gi")},
       {kResizing, kRequired},
       NodePart},
      {"TheVolumeHasWhatTheDriverSaysEvenIfThatIsLess",
       Asks("2Gi", Is("ControllerResizeInfeasible", "3Gi")),
       Has("5Gi"),
       {Begins("3Gi"), Grows("3Gi"), Finishes("3Gi")},
       {Call("3Gi")},
       {kResizing, kSucceeded},
       {}},
      {"InfeasibleWithARequestThatTheVolumeServesIsLeftAlone",
       Asks("1Gi", Is("ControllerResizeInfeasible", "100Gi")),
       nullptr,
       {},
       {},
       {},
       {}},
      {"AClaimBehindItsVolumeFollows",
       Asks("2Gi"),
       Has("2Gi"),
       {Begins("2Gi"), Finishes("2Gi")},
       {Call("2Gi")},
       {kResizing, kSucceeded},
       {}},
      {"WhatAnOldResizerLeftToTheNodeIsLeftAlone",
       Asks("2Gi", WithCondition("FileSystemResizePending", "as it was")),
       Has("2Gi"),
       {},
       {},
       {},
       {}},
  };
}

INSTANTIATE_TEST_SUITE_P(Plain, ExpandTableTest, ::testing::ValuesIn(PlainCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Failure, ExpandTableTest, ::testing::ValuesIn(FailureCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Recovery, ExpandTableTest, ::testing::ValuesIn(RecoveryCases()), NameOf);

}  // namespace
}  // namespace berth::controllers::resizer
