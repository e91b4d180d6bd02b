#include "kube/http/watch_reader.h"

#include <gtest/gtest.h>

namespace berth::kube {
namespace {

TEST(WatchReaderTest, TheMemoryOfABurstIsGivenBack) {
  int events = 0;
  const std::function<bool(WatchEvent)> count = [&](const WatchEvent&) { return ++events > 0; };
  WatchReader reader(api::kinds::kPod, {.max_bytes = 1000}, count);
  std::string received;
  for (int i = 0; i < 1000; ++i) received += "{\"type\":\"ADDED\",\"object\":{}}\n";
  const auto more = reader.ConsumeEvents(received);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(events, 1000);
  EXPECT_LT(received.capacity(), 100U);
}

}  // namespace
}  // namespace berth::kube
