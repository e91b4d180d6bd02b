#include "iscsi/portal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::iscsi {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using Clock = std::chrono::steady_clock;
using Addresses = std::vector<std::string>;

Clock::time_point Later() { return Clock::now() + std::chrono::minutes(1); }

TEST(PortalTest, ANameBecomesItsAddressesAndKeepsItsPort) {
  const auto found = ResolvePortal("san:3261", Later(), [](const std::string& host) {
    EXPECT_EQ(host, "san");
    return Addresses{"fd00::5", "10.0.0.5"};
  });
  ASSERT_OK(found);
  EXPECT_THAT(*found, ElementsAre("[fd00::5]:3261", "10.0.0.5:3261"));
}

TEST(PortalTest, AnAddressIsNotLookedUp) {
  for (const std::string portal : {"10.0.0.5", "10.0.0.5:3260", "[fe80::1]", "[fe80::1]:3260"}) {
    const auto found = ResolvePortal(portal, Clock::now(), [](const std::string& host) {
      ADD_FAILURE() << host;
      return Addresses{};
    });
    ASSERT_OK(found);
    EXPECT_THAT(*found, ElementsAre(portal));
  }
}

TEST(PortalTest, ANameWithoutAddressIsToldInWords) {
  const auto found = ResolvePortal("san", Later(), [](const std::string&) { return Addresses{}; });
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace berth::iscsi
