// Handlers of probes and hooks against real servers on this host's loopback.
#include "node/containers/container_handlers.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"
#include "rpc/fake_cri.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Answers each connection with the same bytes, and keeps what it was asked.
class TcpServer {
 public:
  explicit TcpServer(std::string answer)
      : answer_(std::move(answer)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), raw, size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), raw, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { Serve(); });
  }
  ~TcpServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return port_; }
  std::string request() {
    base::MutexLock lock(mutex_);
    return request_;
  }

 private:
  void Serve() {
    for (;;) {
      const base::UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      char buffer[4096];
      const ssize_t n = read(client.get(), buffer, sizeof buffer);
      if (n > 0) {
        base::MutexLock lock(mutex_);
        request_.assign(buffer, static_cast<size_t>(n));
      }
      if (!answer_.empty()) EXPECT_GE(write(client.get(), answer_.data(), answer_.size()), 0);
    }
  }

  const std::string answer_;
  const base::UniqueFd listener_;
  int port_ = 0;
  base::Mutex mutex_;
  std::string request_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

std::string HttpAnswer(const std::string& status, const std::string& more = "") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: 0\r\nConnection: close\r\n{}\r\n", status,
                     more);
}

// Answers every call with the same bytes.
class GrpcServer : public grpc::CallbackGenericService {
 public:
  explicit GrpcServer(std::string answer) : answer_(std::move(answer)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~GrpcServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  int port() const { return port_; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    struct Reactor : grpc::ServerGenericBidiReactor {
      explicit Reactor(const std::string& answer) {
        const grpc::Slice slice(answer);
        out = grpc::ByteBuffer(&slice, 1);
        StartWriteAndFinish(&out, grpc::WriteOptions(), grpc::Status::OK);
      }
      void OnDone() override { delete this; }
      grpc::ByteBuffer out;
    };
    EXPECT_EQ(context->method(), "/grpc.health.v1.Health/Check");
    return new Reactor(answer_);
  }

 private:
  const std::string answer_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class ContainerHandlersTest : public ::testing::Test {
 protected:
  base::Status Run(const Json& handler, milliseconds timeout = std::chrono::seconds(10)) {
    return RunHandler(
        *cri_, {.container_id = ContainerId("c-1"), .container = container_, .pod_ip = "127.0.0.1"},
        handler, timeout, stop_.get_token());
  }
  static std::string MessageOf(const base::Status& status) {
    return std::string(base::Message(status));
  }

  std::unique_ptr<rpc::FakeCri> runtime_ = *rpc::FakeCri::Start();
  std::unique_ptr<rpc::CriClient> cri_ = *rpc::CriClient::New(runtime_->socket());
  api::Container container_;
  std::stop_source stop_;
};

TEST_F(ContainerHandlersTest, HttpFrom200To399IsWell) {
  for (const char* status : {"200 OK", "204 No Content", "302 Found", "399 Odd"}) {
    TcpServer server(HttpAnswer(status, "Location: http://127.0.0.1:1/\r\n"));
    const base::Status result = Run({{"httpGet", {{"port", server.port()}}}});
    EXPECT_TRUE(result.ok()) << status << ": " << result;
  }
  for (const char* status : {"400 Bad Request", "503 Service Unavailable"}) {
    TcpServer server(HttpAnswer(status));
    const base::Status result = Run({{"httpGet", {{"port", server.port()}}}});
    EXPECT_EQ(result.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(result), HasSubstr(std::string("statuscode: ") + std::string(status, 3)));
  }
}

TEST_F(ContainerHandlersTest, HttpSendsPathAndHeadersToAPortByItsName) {
  TcpServer server(HttpAnswer("200 OK"));
  container_ = api::Container(
      {{"name", "web"}, {"ports", {{{"name", "admin"}, {"containerPort", server.port()}}}}});
  const Json get = {{"port", "admin"},
                    {"path", "healthz?deep=1"},
                    {"httpHeaders", {{{"name", "X-Probe"}, {"value", "yes"}}}}};
  ASSERT_TRUE(Run({{"httpGet", get}}).ok());
  EXPECT_THAT(server.request(), HasSubstr("GET /healthz?deep=1 HTTP/1.1"));
  EXPECT_THAT(server.request(), HasSubstr("X-Probe: yes"));
  EXPECT_EQ(Run({{"httpGet", {{"port", "absent"}}}}).code(), StatusCode::kInvalidArgument);
}

TEST_F(ContainerHandlersTest, WhoDoesNotAnswerInTimeHasNotAnswered) {
  const base::UniqueFd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(silent.get(), raw, size), 0);
  ASSERT_EQ(listen(silent.get(), 1), 0);  // the kernel connects, and nobody reads
  ASSERT_EQ(getsockname(silent.get(), raw, &size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_EQ(Run({{"httpGet", {{"port", port}}}}, milliseconds(50)).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Run({{"tcpSocket", {{"port", port}}}}).ok()) << "to connect is all it asks";
}

TEST_F(ContainerHandlersTest, NobodyAtThePortIsNoAnswer) {
  int port = 0;
  {
    port = TcpServer("").port();
  }
  EXPECT_EQ(Run({{"httpGet", {{"port", port}}}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Run({{"tcpSocket", {{"port", port}}}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Run({{"grpc", {{"port", port}}}}).code(), StatusCode::kUnavailable);
}

TEST_F(ContainerHandlersTest, GrpcIsWellWhenItServes) {
  {
    GrpcServer serving(std::string("\x08\x01", 2));
    const base::Status result = Run({{"grpc", {{"port", serving.port()}, {"service", "web"}}}});
    EXPECT_TRUE(result.ok()) << result;
  }
  GrpcServer not_serving(std::string("\x08\x02", 2));
  const base::Status result = Run({{"grpc", {{"port", not_serving.port()}}}});
  EXPECT_EQ(result.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(result), HasSubstr("not SERVING"));
}

TEST_F(ContainerHandlersTest, WhatNamesNoHandlerIsWrong) {
  EXPECT_EQ(Run(Json::object()).code(), StatusCode::kInvalidArgument);
}

TEST_F(ContainerHandlersTest, AnAgentThatStopsDoesNotWait) {
  TcpServer server(HttpAnswer("200 OK"));
  stop_.request_stop();
  EXPECT_EQ(Run({{"httpGet", {{"port", server.port()}}}}).code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace berth::node
