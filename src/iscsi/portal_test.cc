#include "iscsi/portal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

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

TEST(PortalTest, AResolverThatHangsEndsAtTheDeadlineAndTakesABoundedNumberOfThreads) {
  auto end = std::make_shared<std::promise<void>>();
  const LookUp hangs = [ended = end->get_future().share()](const std::string&) {
    ended.wait();
    return Addresses{"10.0.0.5"};
  };
  StatusCode code = StatusCode::kDeadlineExceeded;
  int hung = 0;
  for (; code == StatusCode::kDeadlineExceeded && hung < 100; ++hung) {
    code = ResolvePortal("san", Clock::now() + std::chrono::milliseconds(1), hangs).status().code();
  }
  EXPECT_GT(hung, 1);
  EXPECT_EQ(code, StatusCode::kResourceExhausted);
  end->set_value();
  // The threads end, and names are looked up again.
  const auto give_up = Later();
  const LookUp works = [](const std::string&) { return Addresses{"10.0.0.5"}; };
  while (!ResolvePortal("san", Later(), works).ok() && Clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(ResolvePortal("san", Later(), works).ok());
}

TEST(PortalTest, TheSystemFindsTheLoopbackInterface) {
  const auto found = LookUpBySystem("localhost");
  ASSERT_OK(found);
  EXPECT_THAT(*found, testing::IsSupersetOf({"127.0.0.1"}));
}

}  // namespace
}  // namespace berth::iscsi
