// What a Service decides: who comes in, how an error looks, and how an answer is carried.

#include "http/service.h"

#include <gmock/gmock.h>
#include <netinet/in.h>

#include <filesystem>
#include <future>
#include <thread>

#include "http/blocking_stream.h"
#include "http/client_fixture.h"
#include "http/fake_service.h"
#include "http/server.h"

namespace berth::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

// Lets nobody in.
class NobodysService : public FakeService {
 public:
  using FakeService::FakeService;
  std::shared_ptr<const User> FindProcessUser(uid_t) const override { return nullptr; }
};

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-service-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (server_) server_->Stop();
    for (std::thread& thread : threads_) thread.join();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Listen(std::unique_ptr<FakeService> service, const Limits& limits = {}) {
    service_ = std::move(service);
    auto server = Server::Listen({.unix_socket = socket(), .limits = limits}, nullptr, *service_);
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }
  static void Echo(std::shared_ptr<Exchange> exchange) {
    exchange->Reply({.content_type = "text/plain", .body = exchange->request().target});
  }
  std::string Raw(std::string_view bytes) {
    TestConnection connection(socket());
    connection.Send(bytes);
    return connection.ReadToEnd();
  }
  std::string socket() const { return folder_ + "/s.sock"; }

  std::string folder_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<Server> server_;
  std::vector<std::thread> threads_;
};

TEST_F(ServiceTest, SaysWhoComesIn) {
  Listen(std::make_unique<NobodysService>(Echo));
  EXPECT_EQ(Raw(RequestText("GET", "/x", "", "")), "");
}

TEST_F(ServiceTest, RendersRefusals) {
  Listen(std::make_unique<FakeService>(Echo));
  EXPECT_THAT(Raw("GET / HTTP/1.0\r\n\r\n"), HasSubstr("HTTP/1.1 is needed"));
  EXPECT_THAT(Raw("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  const std::string forbidden =
      Raw("POST /forbidden HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(forbidden, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(forbidden, HasSubstr("not you"));
  service_->silent = true;
  EXPECT_EQ(Raw("nonsense\r\n\r\n"), "");
}

TEST_F(ServiceTest, TakesOneRequestAConnection) {
  Listen(std::make_unique<FakeService>(Echo), {.one_request = true, .http_1_0 = true});
  const std::string answer =
      Raw(RequestText("GET", "/x", "", "") + RequestText("GET", "/y", "", ""));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/x")) << answer;
  EXPECT_THAT(Raw("GET /old HTTP/1.0\r\n\r\n"), HasSubstr("\r\n\r\n/old"));
}

TEST_F(ServiceTest, OneRequestMustComeWithinItsTimeFromTheBeginning) {
  Listen(std::make_unique<FakeService>(Echo), {.request = milliseconds(100), .one_request = true});
  TestConnection silent(socket());
  EXPECT_EQ(silent.ReadToEnd(), "");
}

TEST_F(ServiceTest, AnAnswerMustBeTakenWithinItsTime) {
  std::promise<void> over;
  Listen(std::make_unique<FakeService>([&](std::shared_ptr<Exchange> exchange) {
           exchange->OnOver([&] { over.set_value(); });
           exchange->Reply({.body = std::string(8 << 20, 'x')});
         }),
         {.answer = milliseconds(100)});
  TestConnection slow(socket());
  slow.Send(RequestText("GET", "/x", "", ""));
  // Long before it would be taken for one that stalls.
  EXPECT_EQ(over.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(ServiceTest, ServesPlainTcpOnAListenerOfItsOwner) {
  base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  service_ = std::make_unique<FakeService>(Echo);
  auto server = Server::Listen({.listener = std::move(listener), .limits = {.one_request = true}},
                               nullptr, *service_);
  ASSERT_TRUE(server.ok()) << base::ToString(server.status());
  server_ = *std::move(server);
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address.sin_port = htons(server_->port());
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = RequestText("GET", "/tcp", "", "");
  ASSERT_EQ(send(fd.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char block[1024];
  for (ssize_t size; (size = recv(fd.get(), block, sizeof(block), 0)) > 0;) {
    answer.append(block, static_cast<size_t>(size));
  }
  EXPECT_TRUE(answer.ends_with("\r\n\r\n/tcp")) << answer;
}

TEST_F(ServiceTest, HandsARequestOnToAConnectedSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const base::UniqueFd far(ends[0]);
  auto near = std::make_shared<base::UniqueFd>(ends[1]);
  Listen(std::make_unique<FakeService>([near](std::shared_ptr<Exchange> exchange) {
    exchange->Proxy({.stream = std::move(*near), .head = "the head,", .failure = {.code = 503}});
  }));
  TestConnection client(socket());
  client.Send("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nand more");
  std::string got(17, ' ');
  ASSERT_EQ(recv(far.get(), got.data(), got.size(), MSG_WAITALL), 17);
  EXPECT_EQ(got, "the head,and more");
  ASSERT_EQ(send(far.get(), "an answer", 9, 0), 9);
  EXPECT_EQ(client.ReadExactly(9), "an answer");
  shutdown(far.get(), SHUT_WR);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(ServiceTest, AClientThatEndsItsSendingKeepsItsStreams) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const base::UniqueFd far(ends[0]);
  auto near = std::make_shared<base::UniqueFd>(ends[1]);
  auto proxied_over = std::make_shared<std::promise<void>>();
  auto stream_over = std::make_shared<std::promise<void>>();
  std::promise<std::shared_ptr<Exchange>> streaming;
  Listen(std::make_unique<FakeService>([=, &streaming](std::shared_ptr<Exchange> exchange) {
           if (exchange->request().target == "/proxied") {
             exchange->OnOver([proxied_over] { proxied_over->set_value(); });
             return exchange->Proxy({.stream = std::move(*near), .head = "the head,"});
           }
           exchange->OnOver([stream_over] { stream_over->set_value(); });
           exchange->StartStream({});
           streaming.set_value(std::move(exchange));
         }),
         {.half_close = true});
  const auto happens = [](std::promise<void>& event) {
    return event.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  };
  {
    TestConnection client(socket());
    client.Send(RequestText("GET", "/proxied", "", "") + "last words");
    client.ShutdownWrite();
    std::string got(19, ' ');
    ASSERT_EQ(recv(far.get(), got.data(), got.size(), MSG_WAITALL), 19);
    EXPECT_EQ(got, "the head,last words");
    char byte;
    EXPECT_EQ(recv(far.get(), &byte, 1, 0), 0) << "the client's end is passed on";
    ASSERT_EQ(send(far.get(), "an answer", 9, MSG_NOSIGNAL), 9);
    EXPECT_EQ(client.ReadExactly(9), "an answer");
  }
  EXPECT_TRUE(happens(*proxied_over)) << "a client that is gone ends it";
  std::shared_ptr<Exchange> exchange;
  {
    TestConnection client(socket());
    client.Send(RequestText("GET", "/stream", "", ""));
    exchange = streaming.get_future().get();
    client.ShutdownWrite();
    TestConnection probe(socket());  // by its end the first one's has been read
    probe.Send("nonsense\r\n\r\n");
    probe.ReadToEnd();
    EXPECT_TRUE(exchange->Push(MakeFrame(EncodeChunk("more"))));
    EXPECT_THAT(client.ReadUntil("more"), HasSubstr("more"));
    EXPECT_FALSE(exchange->over());
  }
  EXPECT_TRUE(happens(*stream_over));
}

TEST_F(ServiceTest, ABlockingStreamSendsPieceByPiece) {
  Listen(std::make_unique<FakeService>([this](std::shared_ptr<Exchange> exchange) {
    threads_.emplace_back([exchange = std::move(exchange)] {
      BlockingStream stream(exchange);
      stream.Start({.content_type = "text/plain"});
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(stream.Send(std::string(100'000, 'x')));
      EXPECT_TRUE(stream.Send(""));
      if (exchange->request().target == "/whole") stream.End();
    });
  }));
  TestConnection connection(socket());
  connection.Send(RequestText("GET", "/whole", "", ""));
  EXPECT_EQ(ReadResponse(connection).body.size(), 10'000'000u);
  // One that its maker leaves breaks off without an end.
  connection.Send(RequestText("GET", "/half", "", ""));
  EXPECT_THAT(connection.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_FALSE(connection.ReadToEnd().ends_with("0\r\n\r\n"));
}

TEST_F(ServiceTest, ABlockingStreamEndsWithItsClient) {
  std::promise<void> refused;
  Listen(std::make_unique<FakeService>([&](std::shared_ptr<Exchange> exchange) {
    threads_.emplace_back([&refused, exchange = std::move(exchange)] {
      BlockingStream stream(exchange);
      stream.Start({});
      while (stream.Send(std::string(1'000'000, 'x'))) {
      }
      refused.set_value();
    });
  }));
  {
    TestConnection connection(socket());
    connection.Send(RequestText("GET", "/", "", ""));
    EXPECT_EQ(connection.ReadExactly(1'000'000).size(), 1'000'000u);
  }
  EXPECT_EQ(refused.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(ServiceTest, APersonMayPauseAStream) {
  constexpr size_t kSize = 4 << 20;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  auto far = std::make_shared<base::UniqueFd>(ends[0]);
  auto near = std::make_shared<base::UniqueFd>(ends[1]);
  std::promise<void> cut;
  Listen(std::make_unique<FakeService>([&, near](std::shared_ptr<Exchange> exchange) {
           if (exchange->request().target == "/proxied") {
             return exchange->Proxy({.stream = std::move(*near), .head = "x"});
           }
           if (exchange->request().target == "/answer") {
             exchange->OnOver([&] { cut.set_value(); });
             return exchange->Reply({.body = std::string(kSize, 'x')});
           }
           threads_.emplace_back([exchange = std::move(exchange)] {
             BlockingStream stream(exchange);
             stream.Start({});
             for (size_t i = 0; i < kSize; i += 65536) stream.Send(std::string(65536, 'x'));
             stream.End();
           });
         }),
         {.stall = milliseconds(100)});
  threads_.emplace_back([far] {
    const std::string bytes(kSize, 'x');
    for (size_t sent = 0; sent < kSize;) {
      const ssize_t size = send(far->get(), bytes.data(), kSize - sent, MSG_NOSIGNAL);
      if (size <= 0) break;
      sent += static_cast<size_t>(size);
    }
    shutdown(far->get(), SHUT_WR);
  });
  TestConnection stream(socket());
  stream.Send(RequestText("GET", "/stream", "", ""));
  const std::string head = stream.ReadUntil("\r\n\r\n");
  TestConnection proxied(socket());
  proxied.Send(RequestText("GET", "/proxied", "", ""));
  EXPECT_EQ(proxied.ReadExactly(1), "x");
  // An answer that nobody reads is cut, but not the two streams, which stalled before it.
  TestConnection answer(socket());
  answer.Send(RequestText("GET", "/answer", "", ""));
  EXPECT_EQ(cut.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(proxied.ReadToEnd().size(), kSize - 1);
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  size_t size = 0;
  for (std::string chunk; !(chunk = stream.ReadChunk()).empty();) size += chunk.size();
  EXPECT_EQ(size, kSize);
}

TEST_F(ServiceTest, APausedStreamIsCutInTheEndAndByAStop) {
  for (const bool stopped : {false, true}) {
    auto cut = std::make_shared<std::promise<void>>();
    Listen(std::make_unique<FakeService>([this, cut](std::shared_ptr<Exchange> exchange) {
             threads_.emplace_back([cut, exchange = std::move(exchange)] {
               BlockingStream stream(exchange);
               stream.Start({});
               while (stream.Send(std::string(65536, 'x'))) {
               }
               cut->set_value();
             });
           }),
           {.pause = stopped ? std::chrono::hours(1) : milliseconds(100)});
    TestConnection paused(socket());
    paused.Send(RequestText("GET", "/", "", ""));
    EXPECT_THAT(paused.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
    if (stopped) server_->Stop();
    EXPECT_EQ(cut->get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    server_.reset();
  }
}

}  // namespace
}  // namespace berth::http
