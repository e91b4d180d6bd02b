#include "iscsi/cache_watch.h"

#include <gtest/gtest.h>

namespace berth::iscsi {
namespace {

constexpr uint16_t kSomeReset = 0x2900, kPowerOn = 0x2901, kLunReset = 0x2903;
constexpr uint16_t kInternalReset = 0x2904, kNexusLoss = 0x2907;

TEST(CacheWatchTest, WritesThatWereNotFlushedAreLostWithThePower) {
  for (const uint16_t code : {kSomeReset, kPowerOn, kInternalReset}) {
    CacheWatch watch(false, true);
    watch.OnWritten();
    watch.OnAttention(code, false);
    EXPECT_TRUE(watch.lost()) << code;
    watch.OnFlushed(watch.OnFlushSent());
    EXPECT_TRUE(watch.lost()) << "a later flush hides what was lost before";
  }
}

TEST(CacheWatchTest, WhatWasFlushedIsNotLost) {
  CacheWatch watch(false, true);
  watch.OnWritten();
  watch.OnFlushed(watch.OnFlushSent());
  watch.OnAttention(kPowerOn, false);
  EXPECT_FALSE(watch.lost());
}

TEST(CacheWatchTest, AFlushSavesNoWriteThatEndedAfterItWasSent) {
  CacheWatch watch(false, true);
  watch.OnWritten();
  const uint64_t sent = watch.OnFlushSent();
  watch.OnWritten();
  watch.OnFlushed(sent);
  watch.OnAttention(kPowerOn, false);
  EXPECT_TRUE(watch.lost());
}

TEST(CacheWatchTest, WithoutAWriteCacheNothingIsLost) {
  CacheWatch watch(false, false);
  watch.OnWritten();
  watch.OnAttention(kPowerOn, false);
  EXPECT_FALSE(watch.lost());
}

TEST(CacheWatchTest, TheGreetingOfASessionAndTheResetOfAFenceLoseNothing) {
  CacheWatch alone(false, true), shares(true, true);
  alone.OnWritten();
  shares.OnWritten();
  alone.OnAttention(kSomeReset, true);
  shares.OnAttention(kSomeReset, false);
  for (const uint16_t code : {kLunReset, kNexusLoss}) alone.OnAttention(code, false);
  EXPECT_FALSE(alone.lost() || shares.lost());
  shares.OnAttention(kPowerOn, true);
  EXPECT_TRUE(shares.lost());
}

TEST(CacheWatchTest, ACountOfRegistrationsThatBeganAnewTellsOfAPowerLoss) {
  CacheWatch watch(true, true);
  watch.OnGeneration(7);
  watch.OnWritten();
  watch.OnGeneration(7);
  watch.OnGeneration(9);
  EXPECT_FALSE(watch.lost());
  watch.OnGeneration(0);
  EXPECT_TRUE(watch.lost());
}

}  // namespace
}  // namespace berth::iscsi
