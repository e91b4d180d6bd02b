// Labels are set on files also by a kernel without SELinux. What they do is shown by
// selinux_vm_test.cc.
#include "crust/labelled_volume_fixture.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using RelabelTest = LabelledVolumeFixture;

TEST_F(RelabelTest, EachFileOfAVolumeGetsTheLabelBeforeAnybodyHasIt) {
  const auto plan = PlanOf(kNew, true);
  ASSERT_OK(plan);
  ASSERT_OK(Publish(*plan));
  ExpectLabels(*plan, kNew);
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
  const auto again = PlanOf("", false);
  ASSERT_OK(again);
  ASSERT_OK(Publish(*again));
  ExpectLabels(*again, kNew);
  ASSERT_OK(sandbox_->UnpublishVolume(*again));
}

TEST_F(RelabelTest, AReadOnlyVolumeStaysAsItIs) {
  const auto plan = PlanOf(kNew, true, {"ro"});
  ASSERT_OK(plan);
  ASSERT_OK(Publish(*plan));
  ExpectLabels(*plan, kOld);
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
}

// On a kernel without SELinux, vfs refuses labels of proc, as SELinux does for all that has none.
TEST_F(RelabelTest, AShareWithoutLabelsStaysAsItIs) {
  MountPlan plan{
      .device = {.source = "volume"},
      .steps = {MountFileSystem{.type = "proc"}, RelabelFiles{kNew}, PlaceInSandbox{"v0"}}};
  ASSERT_OK(Publish(plan));
  ASSERT_OK(sandbox_->UnpublishVolume(plan));
  plan.device.block = true;
  const base::Status refused = Publish(plan);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("its files cannot have SELinux labels"));
}

}  // namespace
}  // namespace berth::crust
