#include "apiserver/local_transport.h"

#include <atomic>
#include <latch>
#include <thread>

#include "apiserver/api_fixture.h"
#include "apiserver/forwarding_store.h"
#include "kube/send_guard.h"

namespace berth::apiserver {
namespace {

using api::kinds::kConfigMap;
using api::kinds::kNode;
using base::StatusCode;

Json Map(std::string_view name) {
  Json map = ConfigMap(name);
  map["metadata"]["namespace"] = "default";
  return map;
}

class LocalClientTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    client_ = server_->NewLocalClient({});
  }
  void TearDown() override {
    client_.reset();
    ApiTest::TearDown();
  }

  std::unique_ptr<kube::Client> client_;
};

TEST_F(LocalClientTest, WritesAndReadsAsAClientOfTheSocket) {
  const auto created = client_->Create(kConfigMap, "default", Map("a"));
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(Get(At(kConfigMaps, "a")).json, *created);
  EXPECT_EQ(client_->Create(kConfigMap, "default", Map("a")).status().code(),
            StatusCode::kAlreadyExists);

  Json changed = *created;
  changed["data"]["k"] = "v";
  const auto updated = client_->Update(kConfigMap, changed, "");
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(client_->Update(kConfigMap, changed, "").status().code(), StatusCode::kAborted);
  ASSERT_TRUE(
      client_
          ->Patch(kConfigMap, "default", "a", kube::PatchType::kMerge, {{"data", {{"l", "w"}}}}, "")
          .ok());
  EXPECT_EQ(client_->Get(kConfigMap, "default", "a")->at("data"), Json({{"k", "v"}, {"l", "w"}}));
  ASSERT_TRUE(client_->Delete(kConfigMap, "default", "a", {}).ok());
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
  EXPECT_EQ(client_->Get(kConfigMap, "default", "a").status().code(), StatusCode::kNotFound);
}

TEST_F(LocalClientTest, IsHeldToTheServersRules) {
  Json bad = Map("a");
  bad["metadata"]["name"] = "Not A Name";
  EXPECT_EQ(client_->Create(kConfigMap, "default", bad).status().code(),
            StatusCode::kInvalidArgument);
  Json large = Map("a");
  large["data"]["k"] = std::string(4 << 20, 'x');
  EXPECT_EQ(client_->Create(kConfigMap, "default", large).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(LocalClientTest, HasTheRightsOfWhomItActsAs) {
  const auto node = server_->NewLocalClient(
      {.impersonate_user = "system:node:n1", .impersonate_groups = {"system:nodes"}});
  const auto own = [](std::string_view name) {
    return Json{{"metadata", {{"name", std::string(name)}}}};
  };
  EXPECT_TRUE(node->Create(kNode, "", own("n1")).ok());
  EXPECT_EQ(node->Create(kNode, "", own("n2")).status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(client_->Create(kNode, "", own("n2")).ok());
}

TEST_F(LocalClientTest, AListOfManyPiecesIsRead) {
  Fill(300, 8000);
  const auto list = client_->List(kConfigMap, "default", {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->items.size(), 300U);
  const auto little = server_->NewLocalClient({.requests = {.max_body_bytes = 100'000}});
  EXPECT_EQ(little->List(kConfigMap, "default", {}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(LocalClientTest, AWatchShowsTheChangesOfAllClientsInOrder) {
  const auto list = client_->List(kConfigMap, "default", {});
  ASSERT_TRUE(list.ok()) << list.status();
  client_->Create(kConfigMap, "default", Map("old")).IgnoreError();
  std::vector<std::string> seen;
  std::latch first(1);
  base::Status ended;
  {
    const std::jthread watcher([&] {
      ended = client_->Watch(kConfigMap, "default", {.resource_version = list->resource_version},
                             {}, [&](kube::WatchEvent event) {
                               seen.push_back(event.object["metadata"]["name"]);
                               if (seen.size() == 1) first.count_down();
                               return seen.size() < 21;
                             });
      if (seen.empty()) first.count_down();
    });
    first.wait();
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(client_->Create(kConfigMap, "default", Map(fmt::format("a{}", i))).ok());
      EXPECT_EQ(Post(kConfigMaps, ConfigMap(fmt::format("b{}", i))).code, 201);
    }
  }
  EXPECT_TRUE(ended.ok()) << ended;
  std::vector<std::string> wanted = {"old"};
  for (int i = 0; i < 10; ++i) {
    wanted.push_back(fmt::format("a{}", i));
    wanted.push_back(fmt::format("b{}", i));
  }
  EXPECT_EQ(seen, wanted);
}

TEST_F(LocalClientTest, AWatchEndsWhenItIsStoppedAndForAVersionThatIsGone) {
  std::stop_source stop;
  const std::jthread stopper([&] { stop.request_stop(); });
  const auto ignore = [](const kube::WatchEvent&) { return true; };
  EXPECT_EQ(client_->Watch(kConfigMap, "default", {}, stop.get_token(), ignore).code(),
            StatusCode::kCancelled);
  client_->Create(kConfigMap, "default", Map("a")).IgnoreError();
  ASSERT_TRUE(store_->Compact(store_->current()).ok());
  EXPECT_EQ(client_->Watch(kConfigMap, "default", {.resource_version = "1"}, {}, ignore).code(),
            StatusCode::kOutOfRange);
}

// A store that takes a write and never answers it, as on a disk that hangs.
class SilentStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  void ApplyAsync(store::Write, std::function<void(base::StatusOr<store::Revision>)> done,
                  CommitOn) override {
    base::MutexLock lock(mutex_);
    kept_.push_back(std::move(done));
  }
  void AnswerAll() {
    std::vector<std::function<void(base::StatusOr<store::Revision>)>> kept;
    {
      base::MutexLock lock(mutex_);
      kept.swap(kept_);
    }
    for (auto& done : kept) done(base::Error(StatusCode::kInternal, "the disk failed"));
  }

 private:
  base::Mutex mutex_;
  std::vector<std::function<void(base::StatusOr<store::Revision>)>> kept_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LocalClientTest, AWriteWithoutAnAnswerEndsAtItsDeadline) {
  SilentStore silent(*store_);
  auto server = Server::Start(silent, clock_,
                              {.unix_socket = folder_ + "/silent.sock",
                               .port = 0,
                               .certificate_folder = folder_ + "/pki",
                               .node_sockets = folder_ + "/nodes"});
  ASSERT_TRUE(server.ok()) << server.status();
  auto client =
      (*server)->NewLocalClient({.requests = {.request_timeout = std::chrono::milliseconds(50)}});
  // More than may run at the same time: one that waits for the disk does not count.
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(client->Create(kConfigMap, "default", Map(fmt::format("a{}", i))).status().code(),
              StatusCode::kDeadlineExceeded);
  }
  silent.AnswerAll();
  client.reset();
}

// A store that reads the ConfigMap "slow" for as long as the test wants.
class HoldingStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  base::StatusOr<store::Record> Get(std::string_view key) override {
    if (key.ends_with("/slow")) {
      held.count_down();
      release.wait();
    }
    return ForwardingStore::Get(key);
  }

  static constexpr int kRuns = 4;  // requests that may run at the same time
  std::latch held{kRuns}, release{1};
};

// All places for running requests are taken.
class BusyLocalClientTest : public LocalClientTest {
 protected:
  void SetUp() override {
    LocalClientTest::SetUp();
    holding_ = std::make_unique<HoldingStore>(*store_);
    auto busy = Server::Start(*holding_, clock_,
                              {.unix_socket = folder_ + "/busy.sock",
                               .port = 0,
                               .certificate_folder = folder_ + "/pki",
                               .node_sockets = folder_ + "/nodes"});
    ASSERT_TRUE(busy.ok()) << busy.status();
    busy_ = *std::move(busy);
    client_ = busy_->NewLocalClient({});
    for (int i = 0; i < HoldingStore::kRuns; ++i) {
      holders_.emplace_back(
          [this] { client_->Get(kConfigMap, "default", "slow").status().IgnoreError(); });
    }
    holding_->held.wait();
  }
  void TearDown() override {
    Release();
    client_.reset();
    busy_.reset();
    LocalClientTest::TearDown();
  }
  void Release() {
    if (!holders_.empty()) holding_->release.count_down();
    holders_.clear();
  }

  std::unique_ptr<HoldingStore> holding_;
  std::unique_ptr<Server> busy_;
  std::vector<std::jthread> holders_;
};

TEST_F(BusyLocalClientTest, WhetherARequestMayBeSentIsAskedAfterItsWait) {
  std::atomic<bool> released = false;
  std::latch begins(1);
  base::Status answer;
  {
    const std::jthread waiter([&] {
      const std::function<base::Status()> may_send = [&]() -> base::Status {
        if (released) return base::OkStatus();
        return base::Error(StatusCode::kFailedPrecondition, "asked before the wait");
      };
      const kube::SendGuard guard(may_send, std::chrono::seconds(10));
      begins.count_down();
      answer = client_->Get(kConfigMap, "default", "a").status();
    });
    begins.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    released = true;
    Release();
  }
  EXPECT_EQ(answer.code(), StatusCode::kNotFound) << answer;
}

TEST_F(BusyLocalClientTest, AStreamThatWaitsToRunEndsWhenItIsStopped) {
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  const auto ignore = [](const kube::WatchEvent&) { return true; };
  EXPECT_EQ(client_->Watch(kConfigMap, "default", {}, stop.get_token(), ignore).code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace berth::apiserver
