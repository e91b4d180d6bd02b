// What clients do that nobody knows: unfinished bodies, heads and handshakes, and more connections
// than there are seats. Owners and verified clients don't notice.

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "http/client_fixture.h"
#include "http/fake_service.h"
#include "http/server.h"

namespace berth::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kGoodToken = "Authorization: Bearer good\r\n";
constexpr std::string_view kBadToken = "Authorization: Bearer bad\r\n";

class StrangersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-strangers-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (server_) server_->Stop();
    {
      base::MutexLock lock(mutex_);
      held_.clear();
    }
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Serves a UNIX socket for owners, and a port for strangers. The token "good" makes somebody of a
  // stranger; each target is echoed, except that /hold is never answered.
  void Listen(const Limits& limits, SslContextPtr context = nullptr) {
    service_ = std::make_unique<FakeService>([this](std::shared_ptr<Exchange> exchange) {
      const Request& request = exchange->request();
      if (request.Header("Authorization") == "Bearer good") exchange->SetUser(Ann());
      if (request.target == "/hold") {
        base::MutexLock lock(mutex_);
        return held_.push_back(std::move(exchange));
      }
      exchange->Reply({.content_type = "text/plain", .body = request.target});
    });
    service_->identify = [](const Request& head, std::function<void(Identity)> done) {
      if (head.Header("Authorization") == "Bearer good") return done({.user = Ann()});
      done({.refusal = Refusal{.code = 401, .message = "who are you"}});
    };
    auto server = Server::Listen({.unix_socket = socket(),
                                  .listen_address = "127.0.0.1",
                                  .limits = limits,
                                  .local_clients_by_user = by_user_},
                                 std::move(context), *service_);
    ASSERT_TRUE(server.ok()) << base::ToString(server.status());
    server_ = *std::move(server);
  }
  static std::shared_ptr<const User> Ann() {
    return std::make_shared<const User>(User{.name = "ann", .uid = {}});
  }
  std::string socket() const { return folder_ + "/s.sock"; }
  uint16_t port() const { return server_->port(); }

  static std::string HeadOf(size_t body, std::string_view headers = "") {
    return fmt::format("POST /x HTTP/1.1\r\nContent-Length: {}\r\n{}\r\n", body, headers);
  }
  // Whether a new request on `connection` is answered.
  static bool Serves(TestConnection& connection, std::string_view headers = "") {
    connection.Send(RequestText("GET", "/served", "", headers));
    return ReadResponse(connection).body == "/served";
  }
  bool ServesOwners() {
    TestConnection owner(socket());
    return Serves(owner);
  }
  static void WaitFor(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(condition());
  }
  size_t CountHeld() {
    base::MutexLock lock(mutex_);
    return held_.size();
  }

  bool by_user_ = false;  // so that a test has several strangers
  std::string folder_;
  std::unique_ptr<FakeService> service_;
  base::Mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> held_ ABSL_GUARDED_BY(mutex_);  // asked for /hold
  std::unique_ptr<Server> server_;
};

TEST_F(StrangersTest, ABodyIsNotReadBeforeItsTokenIsJudged) {
  std::promise<std::function<void(Identity)>> judging;
  Listen({});
  service_->identify = [&](const Request& head, std::function<void(Identity)> done) {
    EXPECT_EQ(head.method, "POST");
    EXPECT_EQ(head.body, "");
    judging.set_value(std::move(done));
  };
  TestConnection client(port());
  client.Send(HeadOf(100'000, std::string(kBadToken) + "Expect: 100-continue\r\n"));
  const auto done = judging.get_future().get();
  client.Send(std::string(10'000, 'x'));
  done({.refusal = Refusal{.code = 401, .message = "who are you"}});
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(answer, Not(HasSubstr("100 Continue")));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
}

TEST_F(StrangersTest, AGoodTokensBodyIsReadAfterItIsJudged) {
  Listen({});
  TestConnection client(port());
  for (int i = 0; i < 3; ++i) {
    client.Send(HeadOf(300'000, std::string(kGoodToken) + "Expect: 100-continue\r\n"));
    EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
    client.Send(std::string(300'000, 'x'));
    EXPECT_EQ(ReadResponse(client).body, "/x");
    // The next request's token is judged anew, whether its body comes with it or later.
    client.Send(HeadOf(200'000, kGoodToken) + std::string(200'000, 'x'));
    EXPECT_EQ(ReadResponse(client).body, "/x");
  }
  client.Send(HeadOf(300'000, kBadToken));
  EXPECT_EQ(ReadResponse(client).code, 401);
}

TEST_F(StrangersTest, UnfinishedBodiesTakeNothingFromOthers) {
  // Without a judgement, so that the bodies of strangers are read.
  Listen(
      {.seats = {.memory = {.owners = 1'000'000, .verified = 2'000'000, .strangers = 1'000'000}}});
  std::deque<TestConnection> attackers;
  for (int i = 0; i < 27; ++i) {
    attackers.emplace_back(port(), fmt::format("127.0.0.{}", 2 + i % 3).c_str());
    attackers.back().Send(HeadOf(400'000) + std::string(399'999, 'x'));
  }
  TestConnection owner(socket());
  owner.Send(HeadOf(900'000) + std::string(900'000, 'x'));
  EXPECT_EQ(ReadResponse(owner).body, "/x");
  TestConnection verified(port());
  verified.Send(HeadOf(900'000, kGoodToken) + std::string(900'000, 'x'));
  EXPECT_EQ(ReadResponse(verified).body, "/x");
  // Not even from a stranger who comes later.
  TestConnection stranger(port(), "127.0.0.9");
  stranger.Send(HeadOf(400'000) + std::string(400'000, 'x'));
  EXPECT_EQ(ReadResponse(stranger).body, "/x");
}

TEST_F(StrangersTest, UnfinishedHeadsAreBoundedTogether) {
  Listen({.seats = {.memory = {.strangers = 400'000}}});
  std::deque<TestConnection> attackers;
  for (size_t i = 0; i < 20; ++i) {
    attackers.emplace_back(port());
    attackers.back().Send("GET /" + std::string(60'000, 'x'));
    // Half of the budget is for one address: three such heads.
    if (i >= 3) EXPECT_EQ(attackers[i - 3].ReadToEnd(), "");
  }
  WaitFor([&] { return server_->connections() == 3; });
  EXPECT_TRUE(ServesOwners());
}

TEST_F(StrangersTest, SilentOnesGiveWayTheOldestFirst) {
  Listen({.seats = {.total = 20, .owner_reserve = 4, .max_strangers = 4, .max_per_address = 4}});
  std::deque<TestConnection> silent;
  for (int i = 0; i < 50; ++i) silent.emplace_back(port());
  TestConnection late(port());
  EXPECT_TRUE(Serves(late));
  EXPECT_EQ(silent[0].ReadToEnd(), "");
  EXPECT_EQ(silent[46].ReadToEnd(), "");
  // Those of the last are still there, and one that has been answered is no longer the oldest.
  EXPECT_TRUE(Serves(silent[47]));
  TestConnection further(port());
  EXPECT_TRUE(Serves(further));
  EXPECT_TRUE(Serves(silent[47]));
  EXPECT_EQ(silent[48].ReadToEnd(), "");
}

TEST_F(StrangersTest, SingleBytesKeepNoSeat) {
  Listen({.seats = {.total = 20, .owner_reserve = 4, .max_strangers = 2, .max_per_address = 2}});
  TestConnection slow(port());
  slow.Send("GET ");
  TestConnection patient(port());
  EXPECT_TRUE(Serves(patient));
  slow.Send("/x HT");
  TestConnection late(port());
  EXPECT_TRUE(Serves(late));
  EXPECT_EQ(slow.ReadToEnd(), "");
  EXPECT_TRUE(Serves(patient));
}

TEST_F(StrangersTest, AnAddressKeepsNoOtherOut) {
  Listen({.seats = {.total = 20, .owner_reserve = 4, .max_strangers = 8, .max_per_address = 3}});
  TestConnection honest(port(), "127.0.0.2");
  EXPECT_TRUE(Serves(honest));
  std::deque<TestConnection> attackers;
  for (int i = 0; i < 50; ++i) attackers.emplace_back(port(), "127.0.0.3");
  TestConnection late(port(), "127.0.0.4");
  EXPECT_TRUE(Serves(late));
  EXPECT_EQ(server_->connections(), 5u);
  EXPECT_TRUE(Serves(honest)) << "it was the oldest";
}

TEST_F(StrangersTest, AUserOfThisMachineHasTheSeatsOfOneAddress) {
  by_user_ = true;
  Listen({.seats = {.total = 20, .owner_reserve = 4, .max_strangers = 8, .max_per_address = 3}});
  std::deque<TestConnection> attackers;
  for (int i = 0; i < 50; ++i)
    attackers.emplace_back(port(), fmt::format("127.0.0.{}", 2 + i).c_str());
  TestConnection late(port(), "127.0.0.99");
  EXPECT_TRUE(Serves(late));
  EXPECT_EQ(server_->connections(), 3u);
}

TEST_F(StrangersTest, OwnersAreServedWhenStrangersHaveAllTheirSeats) {
  Listen({.seats = {.total = 8, .owner_reserve = 2, .max_strangers = 4, .max_per_address = 4}});
  std::deque<TestConnection> busy;
  for (int i = 0; i < 4; ++i) {
    busy.emplace_back(port());
    busy.back().Send(RequestText("GET", "/hold", "", ""));
  }
  WaitFor([&] { return CountHeld() == 4; });
  TestConnection refused(port());
  EXPECT_EQ(refused.ReadToEnd(), "");
  std::deque<TestConnection> owners;
  for (int i = 0; i < 4; ++i) {
    owners.emplace_back(socket());
    EXPECT_TRUE(Serves(owners.back()));
  }
}

TEST_F(StrangersTest, AVerifiedClientKeepsItsSeat) {
  Listen({.seats = {.total = 20, .owner_reserve = 4, .max_strangers = 3, .max_per_address = 3}});
  TestConnection verified(port());
  EXPECT_TRUE(Serves(verified, kGoodToken));
  TestConnection by_body(port());
  by_body.Send(HeadOf(300'000, std::string(kGoodToken) + "Expect: 100-continue\r\n"));
  EXPECT_THAT(by_body.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  std::deque<TestConnection> attackers;
  for (int i = 0; i < 50; ++i) attackers.emplace_back(port());
  by_body.Send(std::string(300'000, 'x'));
  EXPECT_EQ(ReadResponse(by_body).body, "/x");
  EXPECT_TRUE(Serves(verified, kGoodToken));
}

TEST_F(StrangersTest, AUserWithTooManyConnectionsIsRefusedAndOthersAreNot) {
  Listen({.seats = {.total = 20,
                    .owner_reserve = 4,
                    .max_strangers = 4,
                    .max_per_address = 4,
                    .max_per_user = 2,
                    .spare = std::chrono::hours(1)}});
  std::deque<TestConnection> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(port());
    EXPECT_TRUE(Serves(clients.back(), kGoodToken));
  }
  TestConnection third(port());
  third.Send(HeadOf(300'000, kGoodToken));
  const auto refused = ReadResponse(third);
  EXPECT_EQ(refused.code, 429);
  EXPECT_THAT(refused.body, HasSubstr("too many connections"));
  EXPECT_TRUE(Serves(clients[0], kGoodToken));
  EXPECT_TRUE(ServesOwners());
}

long AnonymousKib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word == "Anonymous:") return file >> word, std::stol(word);
  }
  return 0;
}

TEST_F(StrangersTest, UnfinishedHandshakesCostLittleAndHoldUpNobody) {
  constexpr size_t kConnections = 1'000;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kConnections * 4) {
    GTEST_SKIP() << "needs 4000 descriptors; the limit is " << limit.rlim_cur;
  }
  Listen({.seats = {.total = 5'000, .max_strangers = kConnections, .max_per_address = kConnections},
          .arrivals = {.burst = kConnections}},
         MakeTlsContext());
  const long before = AnonymousKib();
  std::deque<TestConnection> attackers;
  for (size_t i = 0; i < kConnections; ++i) {
    attackers.emplace_back(port());
    // The begin of a handshake's record of 512 bytes.
    attackers.back().Send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  WaitFor([&] { return server_->connections() >= kConnections; });
  EXPECT_TRUE(ServesOwners());
  EXPECT_LT((AnonymousKib() - before) * 1024 / static_cast<long>(kConnections), 16'384);
}

TEST_F(StrangersTest, AHandshakeThatEndsInItsFirstRecordEndsTheConnection) {
  Listen({.handshake = std::chrono::hours(1)}, MakeTlsContext());
  for (const std::string& begin :
       {std::string(), std::string("\x16"), std::string("\x16\x03\x01\x02\x00\x01", 6),
        std::string("GET / HTTP/1.1\r\n\r\n")}) {
    TestConnection client(port());
    client.Send(begin);
    client.ShutdownWrite();
    client.ReadToEnd();
    WaitFor([&] { return server_->connections() == 0; });
  }
}

TEST_F(StrangersTest, AnAddressThatComesTooOftenIsRefusedAndOthersAreNot) {
  Listen({.arrivals = {.per_second = 1e-9, .burst = 3}});
  const auto comes = [&](const char* address, std::string_view headers = "") {
    TestConnection client(port(), address);
    return Serves(client, headers);
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(comes("127.0.0.2"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(comes("127.0.0.2"));
  EXPECT_FALSE(comes("127.0.0.2", kGoodToken));
  // A user who shows who he is takes nothing from the address, but has a limit of his own.
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(comes("127.0.0.3", kGoodToken)) << i;
  EXPECT_FALSE(comes("127.0.0.3", kGoodToken));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(ServesOwners());
}

TEST_F(StrangersTest, RootMayComeAsOftenAsHeLikes) {
  by_user_ = true;
  Listen({.arrivals = {.per_second = 1e-9, .burst = 1}});
  for (int i = 0; i < 10; ++i) {
    TestConnection client(port());
    EXPECT_TRUE(Serves(client)) << i;
  }
}

TEST_F(StrangersTest, StreamsEndWhoseCredentialsHaveEnded) {
  Listen({});
  std::atomic<bool> revoked = false;
  service_->identify = [&](const Request& head, std::function<void(Identity)> done) {
    if (revoked && head.Header("Authorization") == "Bearer bad") {
      return done({.refusal = Refusal{.code = 401, .message = "who are you"}});
    }
    done({.user = Ann()});
  };
  // A stream, and a request that becomes one later, of each sender.
  std::deque<TestConnection> clients;
  for (const auto& headers : {kBadToken, kBadToken, kGoodToken, kGoodToken}) {
    clients.emplace_back(port());
    clients.back().Send(RequestText("GET", "/hold", "", headers));
    WaitFor([&] { return CountHeld() == clients.size(); });
  }
  TestConnection owner(socket());
  owner.Send(RequestText("GET", "/hold", "", kBadToken));
  WaitFor([&] { return CountHeld() == 5; });
  const auto stream = [&](size_t number) {
    base::MutexLock lock(mutex_);
    held_[number]->StartStream({});
    held_[number]->Push(MakeFrame(EncodeChunk("begun")));
  };
  for (const size_t number : {0, 2, 4}) stream(number);
  for (const size_t number : {0, 2}) {
    clients[number].ReadUntil("\r\n\r\n");
    EXPECT_EQ(clients[number].ReadChunk(), "begun");
  }
  revoked = true;
  server_->JudgeStreams();
  EXPECT_EQ(clients[0].ReadToEnd(), "") << "it is broken off";
  for (const size_t number : {1, 3}) stream(number);
  EXPECT_THAT(clients[1].ReadToEnd(), Not(HasSubstr(std::string(kLastChunk))));
  WaitFor([&] { return server_->connections() == 3; });
  for (const size_t number : {2, 3, 4}) {
    base::MutexLock lock(mutex_);
    EXPECT_TRUE(held_[number]->Push(MakeFrame(EncodeChunk("goes on"))));
  }
  EXPECT_EQ(clients[2].ReadChunk(), "goes on");
}

TEST_F(StrangersTest, AQuietProxiedExchangeEnds) {
  Listen({.quiet = milliseconds(100)});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  base::UniqueFd near(ends[0]);
  const base::UniqueFd far(ends[1]);
  TestConnection client(socket());
  client.Send(RequestText("GET", "/hold", "", ""));
  WaitFor([&] { return CountHeld() == 1; });
  {
    base::MutexLock lock(mutex_);
    held_.at(0)->Proxy({.stream = std::move(near), .head = "hello", .failure = {}});
  }
  EXPECT_EQ(client.ReadToEnd(), "");
  char data[16];
  pollfd wait{.fd = far.get(), .events = POLLIN};
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  EXPECT_EQ(recv(far.get(), data, sizeof(data), 0), 5);
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  EXPECT_EQ(recv(far.get(), data, sizeof(data), 0), 0) << "the far side is told";
}

}  // namespace
}  // namespace berth::http
