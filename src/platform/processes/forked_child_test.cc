#include "platform/processes/forked_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace berth::platform {
namespace {

using base::StatusCode;

TEST(ForkedChildTest, GivesTheAnswerOrTheError) {
  const auto answer = AskForkedChild<pid_t>("ask", std::chrono::seconds(60), [](pid_t& pid) {
    pid = getpid();
    return 0;
  });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_NE(*answer, getpid());
  const auto failed =
      AskForkedChild<int>("ask", std::chrono::seconds(60), [](int&) { return ENOENT; });
  EXPECT_EQ(failed.status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(std::string(base::Message(failed.status())).starts_with("ask: "));
}

TEST(ForkedChildTest, AChildThatDiesOrHangsIsAnError) {
  const auto died = AskForkedChild<int>("ask", std::chrono::seconds(60),
                                        [](int&) -> int { raise(SIGKILL), _exit(0); });
  EXPECT_EQ(died.status().code(), StatusCode::kInternal);
  const auto begun = std::chrono::steady_clock::now();
  const auto hung = AskForkedChild<int>("ask", std::chrono::milliseconds(50), [](int&) {
    for (;;) pause();
    return 0;
  });
  EXPECT_EQ(hung.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

TEST(ForkedChildTest, TheBodyAllocatesWhileOtherThreadsDo) {
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stop] {
      while (!stop) std::vector<std::string>(64, std::string(100, 'x')).clear();
    });
  }
  for (int i = 0; i < 100; ++i) {
    const auto sum = AskForkedChild<size_t>("ask", std::chrono::seconds(60), [](size_t& size) {
      for (int j = 0; j < 100; ++j) size += std::string(1000 + j, 'y').size();
      return 0;
    });
    ASSERT_TRUE(sum.ok()) << sum.status();
    ASSERT_EQ(*sum, 100u * 1000 + 99 * 50);
  }
  stop = true;
}

}  // namespace
}  // namespace berth::platform
