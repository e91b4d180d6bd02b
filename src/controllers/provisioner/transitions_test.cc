// Each outcome of CreateVolume, and what follows: calls of the driver, and what becomes of the
// claim.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::SizeIs;

enum class Then {
  kSameCall,   // at once after the backoff, node kept
  kNextNode,   // the scheduler is to choose another
  kMuchLater,  // nothing before the longest wait is over
};

struct Transition {
  StatusCode code;
  bool node_selected;
  Then then;
  const char* shown;  // the code in the event
};

class OutcomeTest : public ProvisionerTest, public ::testing::WithParamInterface<Transition> {
 protected:
  // A claim whose first CreateVolume fails with the row's code.
  void BeginRow(Options options) {
    rpc::FakeCsiDriver::Options driver;
    driver.topology = {{"zone", "a"}};
    cluster_.Put(MakeNode("node-a", {{"metadata", {{"labels", {{"zone", "a"}}}}}}));
    cluster_.Put(MakeCsiNode("node-a", {"zone"}));
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    Begin(driver, std::move(options));
    script().Fail("CreateVolume", base::Error(GetParam().code, "said the driver"));
  }
  static Json TheClaim() {
    Json more = Asked();
    if (GetParam().node_selected) {
      more["spec"]["storageClassName"] = "late";
      more["metadata"]["annotations"][std::string(kSelectedNode)] = "node-a";
    }
    Json claim = MakeClaim("data", more);
    claim["metadata"].erase("finalizers");
    return claim;
  }
};

TEST_P(OutcomeTest, LeadsToTheNextStep) {
  Options options = Fast();
  if (GetParam().then == Then::kMuchLater) options.retry_max = std::chrono::minutes(10);
  BeginRow(options);
  cluster_.Put(TheClaim());
  ASSERT_TRUE(cluster_.events.WaitFor(fmt::format(
      "Warning ProvisioningFailed default/data: {}rpc error: code = {} desc = said the driver",
      std::string_view(GetParam().shown) == "InvalidArgument"
          ? "Volume provisioning failed with infeasible error. Retries will be delayed. "
          : "",
      GetParam().shown)));
  switch (GetParam().then) {
    case Then::kSameCall: {
      ASSERT_TRUE(WaitVolume("pvc-uid-data"));
      const auto requests = CreateRequests();
      ASSERT_THAT(requests, SizeIs(2));
      EXPECT_EQ(requests[0].name(), requests[1].name());
      EXPECT_EQ(GetClaim("data").has_annotation(kSelectedNode), GetParam().node_selected);
      break;
    }
    case Then::kNextNode:
      ASSERT_TRUE(
          cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
      EXPECT_EQ(script().Count("CreateVolume"), 1);
      break;
    case Then::kMuchLater: {
      cluster_.Put(MakeClaim("barrier", Asked()));
      ASSERT_TRUE(WaitVolume("pvc-uid-barrier"));
      EXPECT_LE(script().Count("CreateVolume"), 3);
      break;
    }
  }
}

TEST_P(OutcomeTest, TheIntentOfADeletedClaimIsReleasedOnlyWhenNoVolumeCanBeLeft) {
  BeginRow(Fast());
  script().Fail("CreateVolume", base::Error(GetParam().code, "said the driver"), 20);
  script().Hang("CreateVolume");
  cluster_.Put(TheClaim());
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  Delete(Claim::kInfo, "default", "data");
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitNoIntent("uid-data"));
  const bool unknown = !ProvesNoVolume(GetParam().code, Earlier::kNone);
  // Asked until the driver gave the volume, which then has an object; or not once more than needed.
  EXPECT_EQ(cluster_.Has<Volume>("", "pvc-uid-data"), unknown);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(unknown ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(
    All, OutcomeTest,
    ::testing::Values(
        Transition{StatusCode::kCancelled, true, Then::kSameCall, "Canceled"},
        Transition{StatusCode::kDeadlineExceeded, true, Then::kSameCall, "DeadlineExceeded"},
        Transition{StatusCode::kUnavailable, true, Then::kSameCall, "Unavailable"},
        Transition{StatusCode::kAborted, true, Then::kSameCall, "Aborted"},
        Transition{StatusCode::kAborted, false, Then::kSameCall, "Aborted"},
        Transition{StatusCode::kInternal, true, Then::kSameCall, "Internal"},
        Transition{StatusCode::kInternal, false, Then::kSameCall, "Internal"},
        Transition{StatusCode::kAlreadyExists, false, Then::kSameCall, "AlreadyExists"},
        Transition{StatusCode::kOutOfRange, false, Then::kSameCall, "OutOfRange"},
        Transition{StatusCode::kPermissionDenied, false, Then::kSameCall, "PermissionDenied"},
        Transition{StatusCode::kUnknown, false, Then::kSameCall, "Unknown"},
        Transition{StatusCode::kNotFound, false, Then::kSameCall, "NotFound"},
        Transition{StatusCode::kFailedPrecondition, false, Then::kSameCall, "FailedPrecondition"},
        Transition{StatusCode::kUnauthenticated, false, Then::kSameCall, "Unauthenticated"},
        Transition{StatusCode::kUnimplemented, false, Then::kSameCall, "Unimplemented"},
        Transition{StatusCode::kResourceExhausted, true, Then::kNextNode, "ResourceExhausted"},
        Transition{StatusCode::kResourceExhausted, false, Then::kSameCall, "ResourceExhausted"},
        Transition{StatusCode::kInvalidArgument, true, Then::kMuchLater, "InvalidArgument"}),
    [](const auto& info) {
      return std::string(info.param.shown) + (info.param.node_selected ? "WithNode" : "");
    });

}  // namespace
}  // namespace berth::controllers::provisioner
