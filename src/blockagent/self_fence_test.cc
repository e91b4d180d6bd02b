// A node that is cut off takes its volumes off in time; with a clock that only the test moves.
#include "blockagent/self_fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/assert_ok.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SelfFenceTimesTest, TheVolumesMustBeOffBeforeTheirFencesMayBeBroken) {
  ASSERT_OK(CheckSelfFenceTimes({}));
  // The greatest that is possible, and a millisecond more.
  ASSERT_OK(CheckSelfFenceTimes({.after = seconds(17), .grace_period = seconds(40)}));
  const auto refused =
      CheckSelfFenceTimes({.after = milliseconds(17001), .grace_period = seconds(40)});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("at most 17000 ms is possible"));
  EXPECT_EQ(CheckSelfFenceTimes({.after = seconds(15), .grace_period = seconds(30)}).code(),
            StatusCode::kInvalidArgument);
  ASSERT_OK(CheckSelfFenceTimes({.after = seconds(25), .grace_period = seconds(50)}));
}

class SelfFenceTest : public testing::Test {
 protected:
  void SetUp() override {
    fence_ = std::make_unique<SelfFence>(
        SelfFence::Options{.after = seconds(15), .now = [this] { return now(); }},
        SelfFence::Parts{.ask_api =
                             [this] {
                               if (const auto meanwhile = std::exchange(while_asking_, nullptr)) {
                                 meanwhile();
                               }
                               return api_;
                             },
                         .list =
                             [this] {
                               const base::MutexLock lock(mutex_);
                               return volumes_;
                             },
                         .ask_lock =
                             [this](const std::string& volume) {
                               const base::MutexLock lock(mutex_);
                               asked_.push_back(volume);
                               return lock_;
                             },
                         .take_off =
                             [this](const std::string& volume) {
                               if (while_taking_off_) while_taking_off_();
                               const base::MutexLock lock(mutex_);
                               taken_off_.push_back(volume);
                               std::erase_if(volumes_, [&](const SelfFence::Volume& one) {
                                 return one.name == volume;
                               });
                               return base::OkStatus();
                             },
                         .returned =
                             [this](const std::set<std::string>& volumes) {
                               returned_.insert(returned_.end(), volumes.begin(), volumes.end());
                             }});
    fence_->AskApi();
  }
  kube::BootTime now() const { return seconds(1000) + milliseconds(passed_.load()); }
  // Lets time pass, then does what the threads of Start would do.
  void Pass(seconds time) {
    passed_ += milliseconds(time).count();
    fence_->AskApi();
    fence_->CheckVolumes();
    EXPECT_TRUE(fence_->WaitIdle(seconds(60)));
  }
  std::vector<std::string> taken_off() {
    const base::MutexLock lock(mutex_);
    return taken_off_;
  }
  std::vector<std::string> asked() {
    const base::MutexLock lock(mutex_);
    return asked_;
  }
  void StartWorkers() { fence_->StartWorkers(); }

  std::atomic<int64_t> passed_ = 0;
  base::Mutex mutex_;
  std::vector<SelfFence::Volume> volumes_ ABSL_GUARDED_BY(mutex_) = {
      {.name = "pv-1", .has_device = true}};
  std::vector<std::string> taken_off_ ABSL_GUARDED_BY(mutex_), asked_ ABSL_GUARDED_BY(mutex_);
  base::Status lock_ ABSL_GUARDED_BY(mutex_) = Error(StatusCode::kUnavailable, "no monitor");
  base::Status api_;
  std::function<void()> while_asking_;
  std::function<void()> while_taking_off_;
  std::vector<std::string> returned_;
  std::unique_ptr<SelfFence> fence_;
};

TEST_F(SelfFenceTest, ANodeThatReachesTheApiKeepsItsVolumesAndDoesNotAskTheStorage) {
  StartWorkers();
  for (int i = 0; i < 20; ++i) Pass(seconds(4));
  EXPECT_THAT(taken_off(), IsEmpty());
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(SelfFenceTest, ANodeThatReachesNeitherTakesItsVolumesOffInTime) {
  StartWorkers();
  Pass(seconds(1));
  api_ = Error(StatusCode::kUnavailable, "no route");
  Pass(seconds(14));
  EXPECT_THAT(taken_off(), IsEmpty());
  EXPECT_THAT(asked(), ElementsAre("pv-1"));
  Pass(seconds(1));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
  EXPECT_THAT(returned_, IsEmpty());
  Pass(seconds(5));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
  api_ = base::OkStatus();
  Pass(seconds(1));
  EXPECT_THAT(returned_, ElementsAre("pv-1"));
}

TEST_F(SelfFenceTest, AnAnswerOfTheApiWhileAVolumeIsTakenOffIsNotTheLastThatCounts) {
  StartWorkers();
  Pass(seconds(1));
  api_ = Error(StatusCode::kUnavailable, "no route");
  while_taking_off_ = [this] {
    api_ = base::OkStatus();
    fence_->AskApi();
    returned_.clear();
  };
  Pass(seconds(15));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
  Pass(seconds(1));
  EXPECT_THAT(returned_, ElementsAre("pv-1"));
}

TEST_F(SelfFenceTest, TheLockInTheStorageIsEnough) {
  StartWorkers();
  {
    const base::MutexLock lock(mutex_);
    lock_ = base::OkStatus();
  }
  api_ = Error(StatusCode::kUnavailable, "no route");
  for (int i = 0; i < 20; ++i) Pass(seconds(6));
  EXPECT_THAT(taken_off(), IsEmpty());
  {
    const base::MutexLock lock(mutex_);
    lock_ = Error(StatusCode::kUnavailable, "no monitor");
  }
  for (int i = 0; i < 3; ++i) Pass(seconds(6));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
}

// An answer shows that the API was reached when the request was sent, and not when it came.
TEST_F(SelfFenceTest, ALateAnswerCountsFromWhenItWasAskedFor) {
  StartWorkers();
  Pass(seconds(1));
  while_asking_ = [&] { passed_ += 20'000; };
  Pass(seconds(1));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
}

// CLOCK_BOOTTIME goes on while the machine sleeps.
TEST_F(SelfFenceTest, AMachineThatSleptAndReachesNothingTakesItsVolumesOffWhenItWakesUp) {
  StartWorkers();
  Pass(seconds(1));
  api_ = Error(StatusCode::kUnavailable, "no route");
  Pass(seconds(3600));
  EXPECT_THAT(taken_off(), ElementsAre("pv-1"));
}

TEST_F(SelfFenceTest, AVolumeWithoutADeviceForWritingIsLeftAlone) {
  StartWorkers();
  {
    const base::MutexLock lock(mutex_);
    volumes_ = {{.name = "reader", .has_device = false}};
  }
  api_ = Error(StatusCode::kUnavailable, "no route");
  for (int i = 0; i < 5; ++i) Pass(seconds(10));
  EXPECT_THAT(taken_off(), IsEmpty());
  // It is mapped in spite of all.
  {
    const base::MutexLock lock(mutex_);
    volumes_ = {{.name = "reader", .has_device = true}};
  }
  Pass(seconds(1));
  EXPECT_THAT(taken_off(), ElementsAre("reader"));
}

}  // namespace
}  // namespace berth::blockagent
