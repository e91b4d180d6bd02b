#include "platform/processes/forked_workers.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr std::chrono::seconds kLong(60);

template <typename T>
void WriteReply(const T& value, std::span<std::byte> reply) {
  memcpy(reply.data(), &value, sizeof(value));
}

int AnswerPid(const char*, std::span<std::byte> reply) {
  WriteReply(getpid(), reply);
  return 0;
}

// "die", "hang", or the number of an error.
int Misbehave(const char* request, std::span<std::byte> reply) {
  if (strcmp(request, "die") == 0) raise(SIGKILL);
  while (strcmp(request, "hang") == 0) pause();
  WriteReply(getpid(), reply);
  return atoi(request);
}

int CountBytes(const char* request, std::span<std::byte> reply) {
  size_t size = 0;
  for (int i = 0; i < 100; ++i) size += std::string(request).append(1000, 'y').size();
  WriteReply(size, reply);
  return 0;
}

TEST(ForkedWorkersTest, OneWorkerAnswersRequestAfterRequest) {
  ForkedWorkers workers(AnswerPid);
  const auto first = workers.SendRequest<pid_t>("ask", kLong, "x");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NE(*first, getpid());
  // On a loaded machine a worker may have ended of idleness before it is asked again.
  pid_t last = *first;
  bool again = false;
  for (int i = 0; i < 20 && !again; ++i) {
    const auto next = workers.SendRequest<pid_t>("ask", kLong, "x");
    ASSERT_TRUE(next.ok()) << next.status();
    again = *next == last;
    last = *next;
  }
  EXPECT_TRUE(again);
}

TEST(ForkedWorkersTest, AWorkerThatEndedIsReplaced) {
  ForkedWorkers workers(AnswerPid);
  const auto first = workers.SendRequest<pid_t>("ask", kLong, "x");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(kill(*first, SIGKILL), 0);
  const auto second = workers.SendRequest<pid_t>("ask", kLong, "x");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*second, *first);
}

TEST(ForkedWorkersTest, AnErrorIsTheErrno) {
  ForkedWorkers workers(Misbehave);
  const auto failed = workers.SendRequest<pid_t>("ask", kLong, std::to_string(ENOENT));
  EXPECT_EQ(failed.status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(std::string(base::Message(failed.status())).starts_with("ask: "));
  EXPECT_TRUE(workers.SendRequest<pid_t>("ask", kLong, "0").ok());
}

TEST(ForkedWorkersTest, AWorkerThatDiesOrHangsIsAnErrorOfItsRequestAlone) {
  ForkedWorkers workers(Misbehave);
  ASSERT_TRUE(workers.SendRequest<pid_t>("ask", kLong, "0").ok());
  // The request is repeated once, if it met an idle worker, because that may have ended by itself.
  EXPECT_EQ(workers.SendRequest<pid_t>("ask", kLong, "die").status().code(), StatusCode::kInternal);
  const auto hung = workers.SendRequest<pid_t>("ask", std::chrono::milliseconds(50), "hang");
  EXPECT_EQ(hung.status().code(), StatusCode::kDeadlineExceeded);
  const auto next = workers.SendRequest<pid_t>("ask", kLong, "0");
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST(ForkedWorkersTest, RequestsThatNoWorkerCanReadAreRefused) {
  ForkedWorkers workers(AnswerPid);
  for (const std::string& request :
       {std::string(), std::string(ForkedWorkers::kMostBytes + 1, 'x'), std::string("a\0b", 3)}) {
    EXPECT_EQ(workers.SendRequest<pid_t>("ask", kLong, request).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(
      workers.SendRequest<pid_t>("ask", kLong, std::string(ForkedWorkers::kMostBytes, 'x')).ok());
}

TEST(ForkedWorkersTest, TheBodyAllocatesWhileOtherThreadsDo) {
  ForkedWorkers workers(CountBytes);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stop] {
      while (!stop) std::vector<std::string>(64, std::string(100, 'x')).clear();
    });
  }
  std::vector<std::jthread> askers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        const auto sum = workers.SendRequest<size_t>("ask", kLong, "1234");
        if (sum.ok() && *sum == 100u * 1004) ++right;
      }
    });
  }
  askers.clear();
  stop = true;
  EXPECT_EQ(right, 8 * 20);
}

}  // namespace
}  // namespace berth::platform
