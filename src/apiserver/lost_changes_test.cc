// Watches end with 410 when the store could not read the changes for them.

#include "apiserver/access/node_reach.h"
#include "apiserver/api_fixture.h"
#include "apiserver/forwarding_store.h"
#include "base/mutex.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

// Passes changes on until they are lost.
class LosableWatcher : public store::Watcher {
 public:
  explicit LosableWatcher(std::shared_ptr<store::Watcher> watcher) : watcher_(std::move(watcher)) {}

  void OnChange(const store::Change& change) override {
    base::MutexLock lock(mutex_);
    if (!lost_) watcher_->OnChange(change);
  }
  void OnProgress(store::Revision revision) override {
    base::MutexLock lock(mutex_);
    if (!lost_) watcher_->OnProgress(revision);
  }
  void OnLost(const base::Status& why) override {
    {
      base::MutexLock lock(mutex_);
      if (std::exchange(lost_, true)) return;
    }
    watcher_->OnLost(why);
  }

 private:
  const std::shared_ptr<store::Watcher> watcher_;
  base::Mutex mutex_;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
};

class LosingStore : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  base::StatusOr<std::shared_ptr<void>> Watch(std::string prefix, store::Revision from,
                                              std::shared_ptr<store::Watcher> watcher) override {
    auto losable = std::make_shared<LosableWatcher>(std::move(watcher));
    auto watch = ForwardingStore::Watch(prefix, from, losable);
    base::MutexLock lock(mutex_);
    watchers_.emplace_back(std::move(prefix), losable);
    added_.NotifyAll();
    return watch;
  }

  // Lets the changes from now on be lost for the present watchers of `prefix`, and waits for one: a
  // client may have seen a first list before its watch begins. Returns how many there are.
  int LoseChanges(std::string_view prefix) {
    std::vector<std::shared_ptr<LosableWatcher>> losing;
    {
      base::MutexLock lock(mutex_);
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while ((losing = FindWatchers(prefix)).empty() && added_.WaitUntil(mutex_, deadline)) {
      }
    }
    for (const auto& watcher : losing) {
      watcher->OnLost(base::Error(base::StatusCode::kInternal, "the disk does not answer"));
    }
    return static_cast<int>(losing.size());
  }

 private:
  std::vector<std::shared_ptr<LosableWatcher>> FindWatchers(std::string_view prefix) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::shared_ptr<LosableWatcher>> found;
    for (const auto& [of, watcher] : watchers_) {
      if (auto present = watcher.lock(); present && of == prefix)
        found.push_back(std::move(present));
    }
    return found;
  }

  base::Mutex mutex_;
  base::CondVar added_;
  std::vector<std::pair<std::string, std::weak_ptr<LosableWatcher>>> watchers_
      ABSL_GUARDED_BY(mutex_);
};

class LostChangesTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    const std::string folder = folder_ + "/second";
    std::filesystem::create_directory(folder);
    second_socket_ = folder + "/api.sock";
    losing_ = std::make_unique<LosingStore>(*store_);
    auto second = Server::Start(*losing_, clock_,
                                {.unix_socket = second_socket_,
                                 .port = 0,
                                 .certificate_folder = folder_ + "/pki",
                                 .kubeconfig = folder + "/kubeconfig",
                                 .node_sockets = folder_ + "/nodes"});
    ASSERT_TRUE(second.ok()) << base::ToString(second.status());
    second_ = *std::move(second);
  }
  void TearDown() override {
    second_.reset();
    losing_.reset();
    ApiTest::TearDown();
  }

  TestResponse CallSecond(std::string_view method, std::string_view target,
                          const Json& body = nullptr) {
    TestConnection connection(second_socket_);
    connection.Send(RequestText(method, target, body.is_null() ? "" : base::json::Dump(body),
                                "Content-Type: application/json\r\n"));
    return ReadResponse(connection);
  }

  std::string second_socket_;
  std::unique_ptr<LosingStore> losing_;
  std::unique_ptr<Server> second_;
};

TEST_F(LostChangesTest, AClientIsToldToListAgain) {
  OpenWatch watch(second_socket_, kConfigMaps, "");
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  EXPECT_EQ(watch.NextBrief(), "ADDED a");
  EXPECT_EQ(losing_->LoseChanges("/configmaps/default/"), 1);
  const Json event = watch.Next();
  EXPECT_EQ(event["type"], "ERROR");
  EXPECT_EQ(event["object"]["code"], 410);
  EXPECT_EQ(event["object"]["reason"], "Expired");
  EXPECT_THAT(event["object"]["message"].get<std::string>(), HasSubstr("could not be read"));
  EXPECT_TRUE(watch.Next().is_null());
}

TEST_F(LostChangesTest, ANewDefinitionIsServed) {
  EXPECT_EQ(losing_->LoseChanges("/customresourcedefinitions.apiextensions.k8s.io/"), 1);
  const Json definition = ParseJson(R"({"metadata": {"name": "boats.example.com"}, "spec": {
      "group": "example.com", "scope": "Namespaced",
      "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
      "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}})");
  const auto made =
      CallSecond("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
  ASSERT_EQ(made.code, 201) << made.body;
  const auto served = [&] { return CallSecond("GET", "/apis/example.com/v1/boats").code == 200; };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!served() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(served());
}

TEST_F(LostChangesTest, ANodesReachIsLoadedAnew) {
  const auto make_pod = [&](const std::string& name) {
    Json pod = PodNamed(name);
    pod["spec"]["nodeName"] = "a";
    pod["spec"]["volumes"] = Json::array({{{"name", "v"}, {"secret", {{"secretName", name}}}}});
    const auto made = Post(kPods, pod);
    ASSERT_EQ(made.code, 201) << made.body;
  };
  NodeReach reach(*losing_);
  const auto reaches = [&](const char* secret) {
    return reach.Reaches(api::NodeName("a"), "", "secrets", "default", secret);
  };
  make_pod("before");
  EXPECT_TRUE(reaches("before"));
  EXPECT_EQ(losing_->LoseChanges("/pods/"), 1);
  make_pod("after");
  EXPECT_TRUE(reaches("after"));
  EXPECT_TRUE(reaches("before"));
}

}  // namespace
}  // namespace berth::apiserver
