#include <atomic>

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using base::StatusOr;

// A store whose lists of ConfigMaps fail once `failing` is set.
class StoreWithoutLists : public store::Store {
 public:
  explicit StoreWithoutLists(store::Store& store) : store_(store) {}

  std::atomic<bool> failing = false;

  StatusOr<store::Page> List(std::string_view prefix, std::string_view after, size_t limit,
                             store::Revision at) override {
    if (failing && prefix.starts_with("/configmaps/")) {
      return base::Error(base::StatusCode::kInternal, "the disk does not answer");
    }
    return store_.List(prefix, after, limit, at);
  }

  store::Revision current() const override { return store_.current(); }
  store::Revision compacted() const override { return store_.compacted(); }
  StatusOr<store::Record> Get(std::string_view key) override { return store_.Get(key); }
  StatusOr<size_t> Count(std::string_view prefix, std::string_view after,
                         store::Revision at) override {
    return store_.Count(prefix, after, at);
  }
  StatusOr<store::History> ReadChanges(std::string_view prefix, store::Revision from,
                                       size_t limit) override {
    return store_.ReadChanges(prefix, from, limit);
  }
  StatusOr<store::Revision> Apply(store::Write write) override {
    return store_.Apply(std::move(write));
  }
  void ApplyAsync(store::Write write,
                  std::function<void(StatusOr<store::Revision>)> done) override {
    store_.ApplyAsync(std::move(write), std::move(done));
  }
  StatusOr<std::shared_ptr<void>> Watch(std::string prefix, store::Revision from,
                                        std::shared_ptr<store::Watcher> watcher) override {
    return store_.Watch(std::move(prefix), from, std::move(watcher));
  }
  base::Status Compact(store::Revision revision) override { return store_.Compact(revision); }

 private:
  store::Store& store_;
};

TEST_F(ApiTest, ACollectionThatCannotBeListedIsNotReportedAsDeleted) {
  ASSERT_EQ(Post(kConfigMaps, ConfigMap("a")).code, 201);
  StoreWithoutLists store(*store_);
  const std::string folder = folder_ + "/second";
  std::filesystem::create_directory(folder);
  const auto server = Server::Start(store, clock_,
                                    {.unix_socket = folder + "/api.sock",
                                     .port = 0,
                                     .certificate_folder = folder_ + "/pki",
                                     .kubeconfig = folder + "/kubeconfig",
                                     .node_sockets = folder_ + "/nodes"});
  ASSERT_TRUE(server.ok()) << base::ToString(server.status());
  store.failing = true;
  TestConnection connection(folder + "/api.sock");
  connection.Send(RequestText("DELETE", kConfigMaps, "", ""));
  const TestResponse answer = ReadResponse(connection);
  EXPECT_EQ(answer.code, 500) << answer.body;
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 200);
}

}  // namespace
}  // namespace berth::apiserver
