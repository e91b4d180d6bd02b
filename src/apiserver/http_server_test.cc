// The transport's time-outs and bounds, with limits short enough to wait for.

#include "apiserver/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <fstream>

#include "apiserver/certificates.h"
#include "apiserver/test_client.h"
#include "apiserver/tls.h"

namespace berth::apiserver {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-http-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Listen(const HttpLimits& limits, HttpServer::Handler handler) {
    const auto certificates =
        EnsureCertificates(folder_ + "/pki", "127.0.0.1", base::SystemClock().Now());
    ASSERT_TRUE(certificates.ok()) << base::ToString(certificates.status());
    auto context = MakeServerContext(*certificates);
    ASSERT_TRUE(context.ok()) << base::ToString(context.status());
    auto server = HttpServer::Listen(
        {.unix_socket = socket(), .listen_address = "127.0.0.1", .limits = limits},
        *std::move(context), std::move(handler));
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }
  static void Echo(std::shared_ptr<Exchange> exchange) {
    exchange->Reply({.content_type = "text/plain", .body = exchange->request().target});
  }
  std::string socket() const { return folder_ + "/s.sock"; }

  std::string folder_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ARequestThatStaysHalfIsDropped) {
  Listen({.request = milliseconds(100)}, Echo);
  for (const std::string_view half :
       {"GET / HT", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1234"}) {
    TestConnection connection(socket());
    connection.Send(half);
    EXPECT_EQ(connection.ReadToEnd(), "");
  }
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/x", "", ""));
  EXPECT_EQ(ReadResponse(connection).body, "/x");
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosed) {
  Listen({.idle = milliseconds(100)}, Echo);
  TestConnection never(socket());
  TestConnection once(socket());
  once.Send(RequestText("GET", "/x", "", ""));
  EXPECT_EQ(ReadResponse(once).body, "/x");
  EXPECT_EQ(once.ReadToEnd(), "");
  EXPECT_EQ(never.ReadToEnd(), "");
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsAnswerIsDropped) {
  std::atomic<bool> over{false};
  Listen({.stall = milliseconds(100)}, [&](std::shared_ptr<Exchange> exchange) {
    exchange->OnOver([&] { over = true; });
    exchange->Reply({.body = std::string(8 << 20, 'x')});
  });
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/", "", ""));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  // Its end would be read only behind what the kernel has buffered: wait without reading.
  while (!over && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(over);
  EXPECT_LT(connection.ReadToEnd().size(), size_t{8 << 20});
}

TEST_F(HttpServerTest, AHandshakeThatDoesNotComeIsDropped) {
  Listen({.handshake = milliseconds(100)}, Echo);
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(server_->port())};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  pollfd wait{.fd = fd.get(), .events = POLLIN};
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  char byte;
  EXPECT_LE(recv(fd.get(), &byte, 1, 0), 0);
}

TEST_F(HttpServerTest, ConnectionsBeyondTheBoundAreRefusedAndOthersServed) {
  Listen({.max_connections = 2}, Echo);
  TestConnection first(socket());
  TestConnection second(socket());
  // Both are in: they have been answered.
  for (TestConnection* connection : {&first, &second}) {
    connection->Send(RequestText("GET", "/x", "", ""));
    EXPECT_EQ(ReadResponse(*connection).body, "/x");
  }
  TestConnection third(socket());
  EXPECT_EQ(third.ReadToEnd(), "");
  first.Send(RequestText("GET", "/y", "", ""));
  EXPECT_EQ(ReadResponse(first).body, "/y");
}

TEST_F(HttpServerTest, AHandlerThatDropsItsRequestAnswers500) {
  Listen({}, [](std::shared_ptr<Exchange>) {});
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/", "", ""));
  EXPECT_EQ(ReadResponse(connection).code, 500);
}

TEST_F(HttpServerTest, AStreamThatIsTooSlowlyReadIsEndedAfterWhatWasQueued) {
  Listen({}, [](std::shared_ptr<Exchange> exchange) {
    exchange->StartStream({});
    const Frame frame = MakeFrame(EncodeChunk(std::string(300'000, 'x')));
    int pushed = 0;
    while (exchange->Push(frame)) ++pushed;
    EXPECT_GE(pushed, 1);
  });
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/", "", ""));
  const auto response = ReadResponse(connection);
  EXPECT_EQ(response.code, 200);
  EXPECT_GE(response.body.size(), size_t{600'000});
  EXPECT_EQ(response.body.size() % 300'000, 0u);
}

TEST_F(HttpServerTest, RefusesASocketPathThatIsAnotherFile) {
  std::ofstream(socket()) << "data";
  auto context = MakeServerContext(
      EnsureCertificates(folder_ + "/pki", "127.0.0.1", base::SystemClock().Now()).value());
  const auto server = HttpServer::Listen({.unix_socket = socket(), .listen_address = "127.0.0.1"},
                                         *std::move(context), Echo);
  EXPECT_EQ(server.status().code(), base::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_regular_file(socket()));
}

}  // namespace
}  // namespace berth::apiserver
