#include <atomic>

#include "apiserver/api_fixture.h"
#include "apiserver/forwarding_store.h"

namespace berth::apiserver {
namespace {

using base::StatusOr;

// A store whose lists of ConfigMaps fail once `failing` is set.
class StoreWithoutLists : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  std::atomic<bool> failing = false;

  StatusOr<store::Page> List(std::string_view prefix, std::string_view after, size_t limit,
                             store::Revision at) override {
    if (failing && prefix.starts_with("/configmaps/")) {
      return base::Error(base::StatusCode::kInternal, "the disk does not answer");
    }
    return ForwardingStore::List(prefix, after, limit, at);
  }
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
