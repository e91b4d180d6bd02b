#include "volume/exec/start_slots.h"

#include <gtest/gtest.h>

#include <future>

namespace berth::volume {
namespace {

using namespace std::chrono_literals;

StartSlots::TimePoint In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

TEST(StartSlotsTest, AsManyAsAreAllowedBeginInEachContainer) {
  StartSlots slots({.at_once = 2, .young = 1h});
  auto first = slots.TakeSlot("a", In(0ms));
  const auto second = slots.TakeSlot("a", In(0ms));
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(slots.TakeSlot("a", In(0ms)), nullptr);
  EXPECT_EQ(slots.TakeSlot("a", In(20ms)), nullptr);
  EXPECT_NE(slots.TakeSlot("b", In(0ms)), nullptr);
  first.reset();
  EXPECT_NE(slots.TakeSlot("a", In(0ms)), nullptr);  // and is free again
  EXPECT_NE(slots.TakeSlot("a", In(0ms)), nullptr);
}

TEST(StartSlotsTest, OneThatEndsLetsTheNextBegin) {
  StartSlots slots({.at_once = 1, .young = 1h});
  auto first = slots.TakeSlot("a", In(0ms));
  auto waiting =
      std::async(std::launch::async, [&] { return slots.TakeSlot("a", In(1h)) != nullptr; });
  first.reset();
  EXPECT_TRUE(waiting.get());
}

TEST(StartSlotsTest, WhatHangsHoldsNobodyUp) {
  StartSlots slots({.at_once = 1, .young = 1ms});
  std::vector<std::unique_ptr<StartSlots::Slot>> hanging;
  for (int i = 0; i < 20; ++i) {
    hanging.push_back(slots.TakeSlot("a", In(1h)));
    ASSERT_NE(hanging.back(), nullptr);
  }
  hanging.clear();
  EXPECT_NE(slots.TakeSlot("a", In(0ms)), nullptr);
}

TEST(StartSlotsTest, ManyContendersGetTheirs) {
  StartSlots slots({.at_once = 3, .young = 1h});
  std::atomic<int> within = 0, most = 0;
  std::vector<std::future<void>> runs;
  for (int i = 0; i < 50; ++i) {
    runs.push_back(std::async(std::launch::async, [&] {
      const auto slot = slots.TakeSlot("a", In(1h));
      const int now = ++within;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(1ms);
      --within;
    }));
  }
  for (auto& run : runs) run.get();
  EXPECT_LE(most, 3);
}

}  // namespace
}  // namespace berth::volume
