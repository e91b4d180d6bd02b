#include "api/kinds/lease_names.h"

#include <gtest/gtest.h>

#include "api/names.h"

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

TEST(LeaseNamesTest, OfIntentsAreNamesThatALeaseCanHave) {
  EXPECT_EQ(ProvisioningIntentsLease("Fake.csi_x", NodeName("")), "berth-provisioning-fake-csi-x");
  EXPECT_EQ(ProvisioningIntentsLease("a.example", NodeName("node-1.b")),
            "berth-provisioning-a-example-node-1.b");
  const std::string node(250, 'n');
  const std::string longest = ProvisioningIntentsLease("a.example", NodeName(node));
  EXPECT_EQ(longest.size(), 253);
  EXPECT_TRUE(CheckDns1123Subdomain(longest).ok());
  EXPECT_NE(longest, ProvisioningIntentsLease("a.example", NodeName(node + "n")));
}

TEST(SanitizeDriverNameTest, MakesWhatAFinalizerCanHold) {
  EXPECT_EQ(SanitizeDriverName("fake.csi.example.com"), "fake-csi-example-com");
  EXPECT_EQ(SanitizeDriverName("a/b_"), "a-b-X");
}

}  // namespace
}  // namespace berth::api
