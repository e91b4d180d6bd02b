#include "platform/host_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "base/assert_ok.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using Clock = std::chrono::steady_clock;
using Addresses = std::vector<std::string>;

Clock::time_point Later() { return Clock::now() + std::chrono::minutes(1); }

TEST(HostLookupTest, AnAddressIsNotLookedUpAndANameIs) {
  const LookUp look_up = [](const std::string& host) {
    EXPECT_EQ(host, "san");
    return Addresses{"fd00::5", "10.0.0.5"};
  };
  EXPECT_THAT(*ResolveHost("10.0.0.7", Clock::now(), look_up), ElementsAre("10.0.0.7"));
  EXPECT_THAT(*ResolveHost("fe80::1", Clock::now(), look_up), ElementsAre("fe80::1"));
  EXPECT_THAT(*ResolveHost("san", Later(), look_up), ElementsAre("fd00::5", "10.0.0.5"));
}

TEST(HostLookupTest, AResolverThatHangsEndsAtTheDeadlineAndTakesABoundedNumberOfThreads) {
  auto end = std::make_shared<std::promise<void>>();
  const LookUp hangs = [ended = end->get_future().share()](const std::string&) {
    ended.wait();
    return Addresses{"10.0.0.5"};
  };
  StatusCode code = StatusCode::kDeadlineExceeded;
  int hung = 0;
  for (; code == StatusCode::kDeadlineExceeded && hung < 100; ++hung) {
    code = ResolveHost("san", Clock::now() + std::chrono::milliseconds(1), hangs).status().code();
  }
  EXPECT_GT(hung, 1);
  EXPECT_EQ(code, StatusCode::kResourceExhausted);
  end->set_value();
  // The threads end, and names are looked up again.
  const auto give_up = Later();
  const LookUp works = [](const std::string&) { return Addresses{"10.0.0.5"}; };
  while (!ResolveHost("san", Later(), works).ok() && Clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(ResolveHost("san", Later(), works).ok());
}

TEST(HostLookupTest, TheSystemFindsTheLoopbackInterface) {
  const auto found = LookUpBySystem("localhost");
  ASSERT_OK(found);
  EXPECT_THAT(*found, testing::IsSupersetOf({"127.0.0.1"}));
}

}  // namespace
}  // namespace berth::platform
