#include "base/shared_read.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace berth::base {
namespace {

TEST(SharedReadTest, EachQuestionAfterAnAnswerIsReadAnew) {
  SharedRead<int> shared;
  int reads = 0;
  EXPECT_EQ(*shared.Get([&] { return ++reads; }), 1);
  EXPECT_EQ(*shared.Get([&] { return ++reads; }), 2);
}

TEST(SharedReadTest, ThoseWhoAskDuringAReadShareTheNextOne) {
  constexpr int kThreads = 16;
  SharedRead<int> shared;
  std::atomic<int> reads = 0;
  std::latch first_reads(1), others_ask(kThreads);
  std::vector<std::jthread> threads;
  std::atomic<bool> stale = false;
  threads.emplace_back([&] {
    shared.Get([&] {
      first_reads.count_down();
      others_ask.wait();
      return ++reads;
    });
  });
  first_reads.wait();
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      others_ask.count_down();
      // The first read began before this question, so its answer may not be given.
      if (*shared.Get([&] { return ++reads; }) < 2) stale = true;
    });
  }
  threads.clear();
  EXPECT_FALSE(stale);
}

TEST(SharedReadTest, AnAnswerIsNeverOlderThanItsQuestion) {
  SharedRead<int> shared;
  std::atomic<int> now = 0;
  std::atomic<int> reads = 0;
  std::atomic<bool> stale = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        const int asked_at = ++now;
        if (*shared.Get([&] {
              ++reads;
              return now.load();
            }) < asked_at) {
          stale = true;
        }
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(stale);
  EXPECT_LE(reads, 8 * 500);
}

}  // namespace
}  // namespace berth::base
