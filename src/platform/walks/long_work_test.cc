#include "platform/walks/long_work.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <latch>
#include <thread>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

class LongWorkTest : public ::testing::Test {
 protected:
  const TempFolder temp_;
  const base::UniqueFd folder_{open(temp_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(LongWorkTest, HasTheFolderAndNoOtherDescriptor) {
  struct stat wanted;
  ASSERT_EQ(fstat(folder_.get(), &wanted), 0);
  // One that is higher than any that the work opens by itself.
  const base::UniqueFd lock(fcntl(folder_.get(), F_DUPFD_CLOEXEC, 200));
  ASSERT_OK(RunLongWork(folder_.get(), {.what = "look"},
                        [wanted, number = lock.get()](int folder, LongWork&) {
                          struct stat st = {};
                          EXPECT_EQ(fstat(folder, &st), 0);
                          EXPECT_EQ(st.st_ino, wanted.st_ino);
                          EXPECT_EQ(st.st_dev, wanted.st_dev);
                          EXPECT_TRUE(IsOpen(STDERR_FILENO));
                          EXPECT_FALSE(IsOpen(number));
                          // A thread that the work starts has no other descriptors, either.
                          std::jthread([folder, number] {
                            EXPECT_TRUE(IsOpen(folder));
                            EXPECT_FALSE(IsOpen(number));
                          }).join();
                          return base::OkStatus();
                        }));
  EXPECT_TRUE(IsOpen(lock.get()));
}

TEST_F(LongWorkTest, GivesWhatTheWorkGives) {
  const Status status = RunLongWork(folder_.get(), {.what = "fail"}, [](int, LongWork&) {
    return base::Error(StatusCode::kDataLoss, "torn");
  });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
}

TEST_F(LongWorkTest, IsNotBegunWhereItIsCancelledAlready) {
  const auto begun = std::make_shared<std::atomic<bool>>(false);
  const LongWorkOptions options{.what = "work", .cancelled = [] { return true; }};
  const Status status = RunLongWork(folder_.get(), options, [begun](int, LongWork&) {
    *begun = true;
    return base::OkStatus();
  });
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
  EXPECT_FALSE(*begun);
}

TEST_F(LongWorkTest, IsToldThatItIsCancelledAndTellsHowFarItIs) {
  uint64_t told = 0;
  int asked = 0;
  const LongWorkOptions options{.what = "work",
                                .cancelled = [&] { return ++asked > 1 && told == 3; },
                                .progress = [&](uint64_t done) { told = done; },
                                .progress_interval = {}};
  const Status status = RunLongWork(folder_.get(), options, [](int, LongWork& work) {
    for (int i = 0; i < 3; ++i) work.CountOne();
    while (!work.cancelled()) std::this_thread::sleep_for(milliseconds(1));
    return base::Error(StatusCode::kCancelled, "stopped");
  });
  EXPECT_EQ(base::Message(status), "stopped");
  EXPECT_EQ(told, 3U);
}

TEST_F(LongWorkTest, WhatShowsNoSignOfLifeIsGivenUpAndNotBegunTwice) {
  const auto go_on = std::make_shared<std::latch>(1);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  bool mine = true;  // belongs to a caller that no longer waits
  const std::function<bool()> question = [&mine] { return mine; };
  Status status = RunLongWork(folder_.get(), {.what = "walk", .patience = seconds(1)},
                              [go_on, asked, question](int, LongWork& work) {
                                EXPECT_TRUE(work.AskCaller(question));
                                work.CountOne();
                                go_on->wait();
                                EXPECT_FALSE(work.AskCaller(question));
                                EXPECT_TRUE(work.cancelled());
                                ++*asked;
                                return base::OkStatus();
                              });
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::Message(status),
              testing::MatchesRegex("walk: its file system has not answered for [0-9]+ s, after 1 "
                                    "files and folders"));
  const auto nothing = [](int, LongWork&) { return base::OkStatus(); };
  status = RunLongWork(folder_.get(), {.what = "walk"}, nothing);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  go_on->count_down();
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (!status.ok() && std::chrono::steady_clock::now() < deadline) {
    status = RunLongWork(folder_.get(), {.what = "walk"}, nothing);
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*asked, 1);
}

TEST_F(LongWorkTest, SignsOfLifeKeepItGoing) {
  EXPECT_TRUE(
      RunLongWork(folder_.get(), {.what = "walk", .patience = seconds(3)}, [](int, LongWork& work) {
        const auto end = std::chrono::steady_clock::now() + seconds(4);
        while (std::chrono::steady_clock::now() < end) {
          work.CountOne();
          std::this_thread::sleep_for(milliseconds(1));
        }
        return base::OkStatus();
      }).ok());
}

TEST_F(LongWorkTest, ManyAtOnceAreApart) {
  std::vector<std::jthread> callers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([this, &right] {
      for (int j = 0; j < 50; ++j) {
        const Status status =
            RunLongWork(folder_.get(), {.what = "open"}, [](int folder, LongWork&) {
              const base::UniqueFd first(openat(folder, ".", O_PATH | O_CLOEXEC));
              // The lowest ones are free, whatever the others open meanwhile.
              return folder == 3 && first.get() == 4
                         ? base::OkStatus()
                         : base::Error(StatusCode::kInternal, "{} and {}", folder, first.get());
            });
        if (status.ok()) ++right;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(right, 16 * 50);
}

}  // namespace
}  // namespace berth::platform
