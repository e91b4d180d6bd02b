// What is asked of a driver, and what is made of its answer.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

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

TEST(ClassifyTest, TellsFinalFromUnknown) {
  EXPECT_EQ(ClassifyFailure(StatusCode::kDeadlineExceeded, OtherNodes::kPossible),
            FailureState::kInBackground);
  EXPECT_EQ(ClassifyFailure(StatusCode::kUnavailable, OtherNodes::kPossible),
            FailureState::kInBackground);
  EXPECT_EQ(ClassifyFailure(StatusCode::kAborted, OtherNodes::kPossible),
            FailureState::kInBackground);
  EXPECT_EQ(ClassifyFailure(StatusCode::kCancelled, OtherNodes::kPossible),
            FailureState::kInBackground);
  EXPECT_EQ(ClassifyFailure(StatusCode::kResourceExhausted, OtherNodes::kPossible),
            FailureState::kReschedule);
  EXPECT_EQ(ClassifyFailure(StatusCode::kResourceExhausted, OtherNodes::kNone),
            FailureState::kFinished);
  EXPECT_EQ(ClassifyFailure(StatusCode::kInvalidArgument, OtherNodes::kPossible),
            FailureState::kInfeasible);
  EXPECT_EQ(ClassifyFailure(StatusCode::kInternal, OtherNodes::kPossible), FailureState::kFinished);
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
