// The transport's time-outs and bounds, with limits short enough to wait for.

#include "http/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "http/client_fixture.h"
#include "http/fake_service.h"

namespace berth::http {
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

  void Listen(const Limits& limits, FakeService::Handler handler) {
    service_ = std::make_unique<FakeService>(std::move(handler));
    auto server =
        Server::Listen({.unix_socket = socket(), .listen_address = "127.0.0.1", .limits = limits},
                       MakeTlsContext(), *service_);
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }
  static void Echo(std::shared_ptr<Exchange> exchange) {
    exchange->Reply({.content_type = "text/plain", .body = exchange->request().target});
  }
  std::string socket() const { return folder_ + "/s.sock"; }

  std::string folder_;
  std::unique_ptr<FakeService> service_;
  std::unique_ptr<Server> server_;
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
  Listen({.seats = {.total = 2}}, Echo);
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
  FakeService service(Echo);
  const auto server = Server::Listen({.unix_socket = socket(), .listen_address = "127.0.0.1"},
                                     MakeTlsContext(), service);
  EXPECT_EQ(server.status().code(), base::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_regular_file(socket()));
}

// Opens `count` connections from a process of its own (this one's descriptors would not do for both
// ends) and keeps them until it is destroyed.
class Idlers {
 public:
  Idlers(const std::string& socket, size_t count) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_.Reset(ends[0]);
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      Connect(socket, count, ends[1]);
    }
    close(ends[1]);
    char done = 0;
    EXPECT_EQ(read(ours_.get(), &done, 1), 1);
    EXPECT_EQ(done, 'y') << "the client could not connect that often";
  }
  ~Idlers() {
    ours_.Reset();
    waitpid(child_, nullptr, 0);
  }

 private:
  [[noreturn]] static void Connect(const std::string& path, size_t count, int end) {
    sockaddr_un address{.sun_family = AF_UNIX};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    bool all = true;
    for (size_t i = 0; i < count && all; ++i) {
      const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      all = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    }
    char word = all ? 'y' : 'n';
    if (write(end, &word, 1) == 1) (void)!read(end, &word, 1);  // until the other end closes
    _exit(0);
  }

  base::UniqueFd ours_;
  pid_t child_ = -1;
};

TEST_F(HttpServerTest, TenThousandIdleConnectionsCostLittleAndHoldUpNobody) {
  constexpr size_t kConnections = 10'000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kConnections * 3 / 2) {
    GTEST_SKIP() << "needs 15000 descriptors; the limit is " << limit.rlim_cur;
  }
  Listen({}, Echo);
  const auto anonymous_kib = [] {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
      if (word == "Anonymous:") return file >> word, std::stol(word);
    }
    return 0L;
  };
  const long before = anonymous_kib();
  const Idlers idlers(socket(), kConnections);
  TestConnection late(socket());
  late.Send(RequestText("GET", "/late", "", ""));
  EXPECT_EQ(ReadResponse(late).body, "/late");
  EXPECT_EQ(server_->connections(), kConnections + 1);
  EXPECT_LT((anonymous_kib() - before) * 1024 / static_cast<long>(kConnections), 2048);
}

TEST_F(HttpServerTest, AnIdleConnectionMakesRoomForANewOne) {
  Listen({.seats = {.total = 2, .spare = milliseconds(1)}}, Echo);
  TestConnection idler(socket());
  TestConnection busy(socket());
  busy.Send("GET /x HT");
  // It has been idle for long enough a moment later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::string body;
  while (body.empty() && std::chrono::steady_clock::now() < deadline) {
    TestConnection late(socket());
    late.Send(RequestText("GET", "/late", "", ""));
    body = ReadResponse(late).body;
  }
  EXPECT_EQ(body, "/late");
  EXPECT_EQ(idler.ReadToEnd(), "");
  busy.Send("TP/1.1\r\n\r\n");
  EXPECT_EQ(ReadResponse(busy).body, "/x");
}

TEST_F(HttpServerTest, BodiesOfAllClientsTogetherAreBounded) {
  Listen({.seats = {.memory = {.owners = 1'000'000}}}, Echo);
  const std::string head = "POST /x HTTP/1.1\r\nContent-Length: 800000\r\n\r\n";
  TestConnection first(socket());
  first.Send(head + "x");
  TestConnection probe(socket());  // by its answer the first one's bytes have been read
  probe.Send(RequestText("GET", "/p", "", ""));
  EXPECT_EQ(ReadResponse(probe).body, "/p");
  TestConnection second(socket());
  second.Send(head + "x");
  const auto refused = ReadResponse(second);
  EXPECT_EQ(refused.code, 429);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: 1"));
  first.Send(std::string(799'999, 'x'));
  EXPECT_EQ(ReadResponse(first).body, "/x");
  // What was taken is given back.
  for (int i = 0; i < 5; ++i) {
    TestConnection third(socket());
    third.Send(head + std::string(800'000, 'x'));
    EXPECT_EQ(ReadResponse(third).body, "/x");
  }
}

TEST_F(HttpServerTest, AnOrderlyEndWaitsForAnswersAndNotForClientsThatHaveTheirs) {
  std::promise<std::shared_ptr<Exchange>> asked;
  Listen({.linger = std::chrono::hours(1), .one_request = true},
         [&](std::shared_ptr<Exchange> exchange) {
           if (exchange->request().target == "/now") return Echo(std::move(exchange));
           asked.set_value(std::move(exchange));
         });
  TestConnection answered(socket());
  answered.Send(RequestText("GET", "/now", "", ""));
  EXPECT_EQ(ReadResponse(answered).body, "/now");
  TestConnection waiting(socket());
  waiting.Send(RequestText("GET", "/later", "", ""));
  std::shared_ptr<Exchange> exchange = asked.get_future().get();
  auto drained = std::async(std::launch::async, [&] { server_->Drain(std::chrono::hours(1)); });
  EXPECT_EQ(answered.ReadToEnd(), "");
  Echo(std::move(exchange));
  EXPECT_EQ(ReadResponse(waiting).body, "/later");
  // Both clients keep their connections.
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  server_->Stop();  // ends the wait in any case
}

TEST_F(HttpServerTest, FindsTcpClientsThatVanish) {
  service_ = std::make_unique<FakeService>(Echo);
  auto server = Server::Listen({.listen_address = "127.0.0.1"}, nullptr, *service_);
  ASSERT_TRUE(server.ok()) << base::ToString(server.status());
  server_ = *std::move(server);
  const base::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(server_->port())};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = RequestText("GET", "/x", "", "");
  ASSERT_EQ(send(client.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  char byte;
  ASSERT_EQ(recv(client.get(), &byte, 1, 0), 1);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  // The server's end is in this process as well: the one whose peer is the client.
  int keepalive = 0;
  int user_timeout = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
        peer.sin_family != AF_INET || peer.sin_port != address.sin_port) {
      continue;
    }
    size = sizeof(int);
    EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keepalive, &size), 0);
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, &size), 0);
  }
  EXPECT_EQ(keepalive, 1);
  EXPECT_EQ(user_timeout, 0) << "it would cut a client that pauses";
}

TEST_F(HttpServerTest, AClientThatAsksAndAsksAndNeverReadsIsDropped) {
  Listen({.stall = milliseconds(100)}, [](std::shared_ptr<Exchange> exchange) {
    exchange->Reply({.body = std::string(100'000, 'x')});
  });
  TestConnection connection(socket());
  std::string flood;
  for (int i = 0; i < 100; ++i) flood += RequestText("GET", "/x", "", "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (server_->connections() == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  connection.Send(flood);
  while (server_->connections() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(HttpServerTest, ASlowReaderOfOneAnswerDoesNotDelayOthers) {
  Listen({}, [](std::shared_ptr<Exchange> exchange) {
    const bool big = exchange->request().target == "/big";
    exchange->Reply({.body = std::string(big ? 32 << 20 : 1, 'x')});
  });
  TestConnection slow(socket());
  slow.Send(RequestText("GET", "/big", "", ""));
  for (int i = 0; i < 100; ++i) {
    TestConnection other(socket());
    other.Send(RequestText("GET", "/small", "", ""));
    ASSERT_EQ(ReadResponse(other).body, "x");
  }
  EXPECT_EQ(ReadResponse(slow).body.size(), size_t{32 << 20});
}

}  // namespace
}  // namespace berth::http
