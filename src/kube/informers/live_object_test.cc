#include "kube/informers/live_object.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::kube {
namespace {

using api::kinds::kPod;
using base::StatusCode;

Json MakeWebPod(std::string_view uid, std::string_view node) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "web"}, {"namespace", "default"}, {"uid", uid}}},
          {"spec", {{"nodeName", node}}}};
}

// A client whose watches never bring an event, so that an informer knows only its first list and
// what it is shown.
class DeafClient : public FakeClient {
 public:
  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& /*on_event*/) override {
    return FakeClient::Watch(kind, ns, options, std::move(stop),
                             [](const WatchEvent&) { return true; });
  }
};

class LiveObjectTest : public testing::Test {
 protected:
  void SetUp() override {
    client_.Add(MakeWebPod("uid-1", "old"));
    informer_.Start();
    ASSERT_TRUE(informer_.WaitForSync(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
  }

  StatusOr<api::Pod> Read() { return ReadLiveObject(client_, informer_, "default", "web"); }
  std::string NodeInCopy() const { return informer_.Get("default", "web")->node_name(); }

  DeafClient client_;
  Informer<api::Pod> informer_{client_};
};

TEST_F(LiveObjectTest, TheNextLookAtTheCopyFindsWhatTheApiAnswered) {
  client_.Add(MakeWebPod("uid-1", "new"));
  ASSERT_EQ(NodeInCopy(), "old");
  const StatusOr<api::Pod> live = Read();
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_EQ(live->node_name(), "new");
  EXPECT_EQ(NodeInCopy(), "new");
}

TEST_F(LiveObjectTest, AnObjectOfAnotherUidTakesThePlaceOfTheOldOne) {
  client_.Remove(kPod, "default", "web");
  client_.Add(MakeWebPod("uid-2", "new"));
  const StatusOr<api::Pod> live = Read();
  ASSERT_TRUE(live.ok()) << live.status();
  EXPECT_EQ(live->uid(), "uid-2");
  EXPECT_EQ(informer_.Get("default", "web")->uid(), "uid-2");
}

TEST_F(LiveObjectTest, AnObjectThatIsGoneIsNotFoundAndStaysInTheCopy) {
  client_.Remove(kPod, "default", "web");
  EXPECT_EQ(Read().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(NodeInCopy(), "old");
}

TEST_F(LiveObjectTest, AnErrorOfTheApiLeavesTheCopyAsItIs) {
  client_.Add(MakeWebPod("uid-1", "new"));
  client_.FailNext("get", "pods", base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(Read().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(NodeInCopy(), "old");
}

}  // namespace
}  // namespace berth::kube
