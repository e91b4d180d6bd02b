// Slow requests of one sender leave workers to the others.

#include "apiserver/request_workers.h"

#include <atomic>
#include <latch>
#include <thread>

#include "apiserver/access/authorization.h"
#include "apiserver/access/static_tokens.h"
#include "apiserver/api_fixture.h"
#include "apiserver/forwarding_store.h"
#include "base/assert_ok.h"
#include "base/workers/fake_thread_limit.h"
#include "kube/config.h"
#include "kube/http/http_client.h"

namespace berth::apiserver {
namespace {

constexpr std::string_view kNodeGroup = "system:nodes";

class RequestWorkersTest : public testing::Test {
 protected:
  void TearDown() override { Release(); }
  void Release() {
    if (!std::exchange(released_, true)) release_.count_down();
  }

  static http::Request From(const std::string& user, std::string_view group = "") {
    http::User known{.name = user, .uid = {}};
    if (!group.empty()) known.groups.emplace_back(group);
    http::Request request;
    request.known = std::make_shared<const http::User>(std::move(known));
    return request;
  }
  // Queues tasks of the sender that end with the test.
  void PostSlow(const http::Request& request, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(workers_.Post(request, [this] {
        ++slow_;
        release_.wait();
      }));
    }
  }
  bool Serves(const http::Request& request) {
    const auto served = std::make_shared<std::promise<void>>();
    EXPECT_TRUE(workers_.Post(request, [served] { served->set_value(); }));
    return served->get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  }

  // Expects that `count` of the slow tasks have a worker.
  void ExpectSlow(int count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (slow_ < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(slow_, count);
  }

  bool released_ = false;
  std::latch release_{1};
  std::atomic<int> slow_ = 0;  // tasks that have begun
  RequestWorkers workers_{4};
};

TEST_F(RequestWorkersTest, SlowRequestsOfOneUserDelayNobodyElse) {
  PostSlow(From("eve"), 100);
  http::Request stranger;
  stranger.address = "192.0.2.1";
  EXPECT_TRUE(Serves(stranger));
  EXPECT_TRUE(Serves(From("bob")));
  EXPECT_TRUE(Serves(From("system:node:a", kNodeGroup)));
  EXPECT_TRUE(Serves(From("root", kAdministrators)));
  ExpectSlow(1);
}

TEST_F(RequestWorkersTest, SlowRequestsOfManyUsersLeaveWorkersToNodesAndOwners) {
  for (int i = 0; i < 50; ++i) PostSlow(From(fmt::format("eve-{}", i)), 10);
  EXPECT_TRUE(Serves(From("system:node:a", kNodeGroup)));
  EXPECT_TRUE(Serves(From("root", kAdministrators)));
  ExpectSlow(2);
}

TEST_F(RequestWorkersTest, SlowRequestsOfNodesLeaveAWorkerToOwners) {
  for (int i = 0; i < 50; ++i) PostSlow(From(fmt::format("system:node:{}", i), kNodeGroup), 10);
  EXPECT_TRUE(Serves(From("root", kAdministrators)));
  EXPECT_TRUE(Serves(From("ann", kAdministrators)));
  ExpectSlow(3);
}

TEST_F(RequestWorkersTest, SendersTakeTurns) {
  std::latch begin{1};
  std::latch done{8};
  base::Mutex mutex;
  std::string order;
  for (const char* sender : {"eve", "eve-too"}) {
    EXPECT_TRUE(workers_.Post(From(sender), [&] {
      begin.wait();
      done.count_down();
    }));
  }
  for (const char* sender : {"a", "a", "a", "b", "b", "c"}) {
    EXPECT_TRUE(workers_.Post(From(sender), [&, sender] {
      {
        base::MutexLock lock(mutex);
        order += sender;
      }
      done.count_down();
    }));
  }
  begin.count_down();
  done.wait();
  base::MutexLock lock(mutex);
  EXPECT_LT(order.find('c'), 5u) << order << ": the last that came waits for one of each other";
  EXPECT_LT(order.find('b'), 4u) << order;
}

TEST_F(RequestWorkersTest, StopDropsWhatWaits) {
  PostSlow(From("eve"), 10);
  const auto held = std::make_shared<int>(1);
  EXPECT_TRUE(workers_.Post(From("eve"), [held] {}));
  std::thread stopping([this] { workers_.Stop(); });
  while (held.use_count() > 1) std::this_thread::yield();
  Release();
  stopping.join();
  EXPECT_FALSE(workers_.Post(From("root", kAdministrators), [] {}));
  EXPECT_FALSE(workers_.Post([] {}));
}

TEST_F(RequestWorkersTest, TasksThatNoThreadCouldRunHoldNoPlace) {
  const auto held = std::make_shared<int>(1);
  {
    const base::NoRoomForThreads full;
    for (int i = 0; i < 5; ++i) {
      EXPECT_FALSE(workers_.Post(From("eve"), [held] {}));
      EXPECT_FALSE(workers_.Post(From("system:node:a", kNodeGroup), [held] {}));
      EXPECT_FALSE(workers_.Post([held] {}));
    }
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_TRUE(Serves(From("eve")));
  EXPECT_TRUE(Serves(From("system:node:a", kNodeGroup)));
  EXPECT_TRUE(Serves(From("root", kAdministrators)));
}

// A store whose lists of ConfigMaps take as long as the test wants.
class SlowStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  base::StatusOr<store::Page> List(std::string_view prefix, std::string_view after, size_t limit,
                                   store::Revision at) override {
    if (prefix.starts_with("/configmaps/")) {
      ++slow;
      release.wait();
    }
    return ForwardingStore::List(prefix, after, limit, at);
  }

  std::atomic<int> slow = 0;
  std::latch release{1};
};

TEST_F(ApiTest, SlowRequestsOfAUserDoNotDelayRoots) {
  SlowStore store(*store_);
  const std::string folder = folder_ + "/second";
  std::filesystem::create_directory(folder);
  const auto server = Server::Start(store, clock_,
                                    {.unix_socket = folder + "/api.sock",
                                     .port = 0,
                                     .certificate_folder = folder_ + "/pki",
                                     .kubeconfig = folder + "/kubeconfig",
                                     .node_sockets = folder_ + "/nodes",
                                     .token_file = folder + "/tokens.json"});
  ASSERT_OK(server);
  const auto token = AddStaticToken(
      folder + "/tokens.json",
      {.user = "eve", .groups = {std::string(kAdministrators)}, .created = clock_.Now()});
  ASSERT_OK(token);
  auto config = kube::LoadKubeconfig(folder + "/kubeconfig").value();
  config.client_certificate = config.client_key = "";
  config.token = *token;
  std::vector<std::thread> asking;
  for (int i = 0; i < 8; ++i) {
    asking.emplace_back([&] {
      const auto client = kube::NewHttpClient(config).value();
      EXPECT_TRUE(client->List(api::kinds::kConfigMap, "default", {}).ok());
    });
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (store.slow == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    TestConnection root(folder + "/api.sock");
    root.Send(RequestText("GET", kClaims, "", ""));
    EXPECT_EQ(ReadResponse(root).code, 200) << i;
  }
  store.release.count_down();
  for (std::thread& one : asking) one.join();
}

}  // namespace
}  // namespace berth::apiserver
