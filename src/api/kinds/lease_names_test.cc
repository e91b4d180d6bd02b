#include "api/kinds/lease_names.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

TEST(LeaseNamesTest, AreThoseOfTheGoPrograms) {
  const std::string driver = "fake.csi.example.com";
  EXPECT_EQ(ProvisionerLease(driver), "fake-csi-example-com");
  EXPECT_EQ(ProvisionerLease("example.com/fake"), "example-com-fake");
  EXPECT_EQ(AttacherLease(driver), "external-attacher-leader-fake-csi-example-com");
  EXPECT_EQ(ResizerLease(driver), "external-resizer-fake-csi-example-com");
  EXPECT_EQ(SnapshotterLease(driver), "external-snapshotter-leader-fake-csi-example-com");
  EXPECT_EQ(SnapshotControllerLease(driver), "snapshot-controller-leader");
}

TEST(SanitizeDriverNameTest, MakesWhatAFinalizerCanHold) {
  EXPECT_EQ(SanitizeDriverName("fake.csi.example.com"), "fake-csi-example-com");
  EXPECT_EQ(SanitizeDriverName("a/b_"), "a-b-X");
}

}  // namespace
}  // namespace berth::api
