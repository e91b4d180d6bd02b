#include "platform/processes/capabilities.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <unistd.h>

namespace berth::platform {
namespace {

constexpr char kStatus[] =
    "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\tffffffffffffffff\nCapEff:\t0000000001200001\n";

TEST(CapabilitiesTest, TheEffectiveSetCounts) {
  EXPECT_TRUE(HasCapabilityIn(kStatus, CAP_CHOWN));
  EXPECT_TRUE(HasCapabilityIn(kStatus, CAP_SYS_ADMIN));
  EXPECT_TRUE(HasCapabilityIn(kStatus, CAP_SYS_RESOURCE));
  EXPECT_FALSE(HasCapabilityIn(kStatus, CAP_MKNOD));
}

TEST(CapabilitiesTest, ATextWithoutASetHasNone) {
  EXPECT_FALSE(HasCapabilityIn("", CAP_CHOWN));
  EXPECT_FALSE(HasCapabilityIn("Name:\tx\nCapEff:\tnone\n", CAP_CHOWN));
}

TEST(CapabilitiesTest, RootHasWhatEveryContainerGives) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: this is not root";
  EXPECT_TRUE(HasCapability(CAP_SETUID));
}

}  // namespace
}  // namespace berth::platform
