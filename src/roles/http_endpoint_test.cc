#include "roles/http_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <vector>

#include "base/workers/fake_thread_limit.h"

namespace berth::roles {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::StartsWith;

class HttpEndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listening = HttpEndpoint::Listen(
        "127.0.0.1:0",
        {{"/healthz", [] { return HttpEndpoint::Answer{.body = "ok"}; }},
         {"/broken", [] { return HttpEndpoint::Answer{.code = 500, .body = "no driver"}; }}});
    ASSERT_TRUE(listening.ok()) << listening.status();
    endpoint_ = *std::move(listening);
  }

  base::UniqueFd Connect() {
    base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval deadline{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  std::string SendRequest(std::string_view request) {
    const base::UniqueFd fd = Connect();
    EXPECT_EQ(send(fd.get(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[1024];
    ssize_t count = 0;
    while ((count = recv(fd.get(), buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<size_t>(count));
    }
    return answer;
  }

  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, AnswersProbes) {
  const std::string answer = SendRequest("GET /healthz?verbose HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 2\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nok"));
  EXPECT_THAT(SendRequest("GET /broken HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 500 "));
  EXPECT_TRUE(SendRequest("HEAD /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n")) << "no body";
}

TEST_F(HttpEndpointTest, APathWhoseHandlerGotNoThreadIsAnsweredAgainLater) {
  {
    const base::NoRoomForThreads full;
    EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  }
  EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpEndpointTest, RefusesTheRest) {
  EXPECT_THAT(SendRequest("GET /other HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(SendRequest("POST /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(SendRequest("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(SendRequest("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n"), "");
}

TEST_F(HttpEndpointTest, SilentClientsKeepNobodyOut) {
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(Connect());
  EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpEndpointTest, AsManySilentClientsAsThereMayBeKeepNobodyOut) {
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Connect());
    if (i % 20 == 0) {
      EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 ")) << i;
    }
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 ")) << i;
  }
  // They are closed the oldest first.
  char byte;
  EXPECT_EQ(recv(silent.front().get(), &byte, 1, 0), 0);
}

// A path whose requests are complete, and take as long as the test wants.
class SlowEndpointTest : public HttpEndpointTest {
 protected:
  void SetUp() override {
    auto listening = HttpEndpoint::Listen(
        "127.0.0.1:0", {{"/healthz", [] { return HttpEndpoint::Answer{.body = "ok"}; }},
                        {"/slow", [this] {
                           ++runs_;
                           release_.wait();
                           return HttpEndpoint::Answer{.body = "slow"};
                         }}});
    ASSERT_TRUE(listening.ok()) << listening.status();
    endpoint_ = *std::move(listening);
  }

  // Sends a complete request from a socket of user `uid`, whom the server takes for its sender.
  base::UniqueFd AskForSlow(uid_t uid) {
    setfsuid(uid);
    base::UniqueFd fd = Connect();
    setfsuid(geteuid());
    const std::string_view request = "GET /slow HTTP/1.1\r\n\r\n";
    send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);  // it may be refused already
    return fd;
  }
  static std::string ReadToEnd(const base::UniqueFd& fd) {
    std::string answer;
    char buffer[1024];
    ssize_t count = 0;
    while ((count = recv(fd.get(), buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<size_t>(count));
    }
    return answer;
  }

  std::atomic<int> runs_ = 0;
  std::latch release_{1};
};

TEST_F(SlowEndpointTest, ManyWhoAskAtOnceGetTheAnswersOfFewRuns) {
  std::vector<base::UniqueFd> asking;
  for (int i = 0; i < 30; ++i) asking.push_back(AskForSlow(geteuid()));
  // Another path is answered meanwhile, after all of these have been received.
  EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  release_.count_down();
  for (const auto& fd : asking) EXPECT_TRUE(ReadToEnd(fd).ends_with("\r\n\r\nslow"));
  EXPECT_GE(runs_, 1);
  EXPECT_LE(runs_, 5);
}

TEST_F(SlowEndpointTest, CompleteRequestsOfStrangersKeepNoProbeOut) {
  if (geteuid() != 0) {
    release_.count_down();
    GTEST_SKIP() << "needs root, to be several users";
  }
  constexpr uid_t kNobody = 65534;
  std::vector<base::UniqueFd> asking;
  for (int i = 0; i < 200; ++i) asking.push_back(AskForSlow(kNobody - static_cast<uid_t>(i % 4)));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(SendRequest("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 ")) << i;
  }
  release_.count_down();
  EXPECT_TRUE(ReadToEnd(asking.front()).ends_with("\r\n\r\nslow"));
  EXPECT_LE(runs_, 5);
}

TEST_F(HttpEndpointTest, SaysWhyAnAddressIsNone) {
  const auto code = [](const std::string& address) {
    return HttpEndpoint::Listen(address, {}).status().code();
  };
  for (const char* address : {"", "8080", ":", ":x", ":123456", "::1:80"}) {
    EXPECT_EQ(code(address), StatusCode::kInvalidArgument) << address;
  }
  EXPECT_EQ(code(fmt::format("127.0.0.1:{}", endpoint_->port())), StatusCode::kUnavailable);
  EXPECT_EQ(code(":0"), StatusCode::kOk);
}

}  // namespace
}  // namespace berth::roles
