#include "node/node_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "kube/fake_client.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::HasSubstr;

class NodeStatusTest : public ::testing::Test {
 protected:
  void Start(std::chrono::milliseconds lease_duration = std::chrono::hours(4)) {
    status_ = std::make_unique<NodeStatus>(NodeStatusOptions{.node_name = "node-a",
                                                             .kubelet_folder = "/tmp",
                                                             .version = "berth/1",
                                                             .port = 10250,
                                                             .labels = {{"team", "storage"}},
                                                             .lease_duration = lease_duration},
                                           client_, informers_, clock_);
    status_->Start();
  }
  std::optional<api::Node> Node() const { return client_.Peek<api::Node>("", "node-a"); }
  Json Ready() const {
    const auto node = Node();
    if (!node.has_value()) return nullptr;
    for (const Json& condition : base::json::Array(node->json(), {"status", "conditions"})) {
      if (condition["type"] == "Ready") return condition;
    }
    return nullptr;
  }
  bool WaitReady(const std::string& value) {
    return client_.WaitUntil([&] { return !Ready().is_null() && Ready()["status"] == value; });
  }

  base::FakeClock clock_;
  kube::FakeClient client_{clock_};
  kube::Informers informers_{client_};
  std::unique_ptr<NodeStatus> status_;
};

TEST_F(NodeStatusTest, RegistersAMissingNode) {
  Start();
  ASSERT_TRUE(status_->WaitRegistered(std::chrono::seconds(10)));
  ASSERT_TRUE(WaitReady("False"));
  EXPECT_EQ(Node()->label("kubernetes.io/os"), "linux");
  EXPECT_EQ(Node()->label("kubernetes.io/hostname"), "node-a");
  EXPECT_FALSE(Node()->label("kubernetes.io/arch").empty());
  EXPECT_EQ(Node()->label("team"), "storage");
  EXPECT_EQ(Node()->annotation("volumes.kubernetes.io/controller-managed-attach-detach"), "true");
  EXPECT_EQ(Node()->String({"status", "capacity", "pods"}), "110");
  EXPECT_THAT(Node()->String({"status", "capacity", "memory"}), HasSubstr("Ki"));
  EXPECT_EQ(Node()->String({"status", "nodeInfo", "kubeletVersion"}), "berth/1");
  EXPECT_EQ(Node()->Int({"status", "daemonEndpoints", "kubeletEndpoint", "Port"}), 10250);
}

TEST_F(NodeStatusTest, IsReadyWhenTheRuntimeAnswers) {
  Start();
  ASSERT_TRUE(WaitReady("False"));
  EXPECT_EQ(Ready()["reason"], "ContainerRuntimeNotReady");
  clock_.Advance(std::chrono::hours(1));
  status_->SetRuntime(true, "", "containerd://1.6.20");
  ASSERT_TRUE(WaitReady("True"));
  EXPECT_TRUE(Node()->ready());
  EXPECT_EQ(Ready()["lastTransitionTime"], "2026-01-01T01:00:00Z");
  EXPECT_EQ(Node()->String({"status", "nodeInfo", "containerRuntimeVersion"}),
            "containerd://1.6.20");
  clock_.Advance(std::chrono::hours(1));
  status_->SetRuntime(false, "no socket at /x", "");
  ASSERT_TRUE(WaitReady("False"));
  EXPECT_EQ(Ready()["message"], "no pod can run here: no socket at /x");
}

TEST_F(NodeStatusTest, AFactThatDidNotChangeIsNotWritten) {
  Start();
  status_->SetRuntime(true, "", "v");
  ASSERT_TRUE(WaitReady("True"));
  status_->Stop();
  const size_t before = client_.ActionNames().size();
  status_->SetRuntime(true, "", "v");
  EXPECT_EQ(client_.ActionNames().size(), before);
}

TEST_F(NodeStatusTest, LeavesOthersFieldsAlone) {
  client_.Add({{"apiVersion", "v1"},
               {"kind", "Node"},
               {"metadata", {{"name", "node-a"}, {"labels", {{"mine", "1"}}}}},
               {"spec", {{"unschedulable", true}}},
               {"status",
                {{"volumesInUse", {"v"}},
                 {"conditions", {{{"type", "DiskOnFire"}, {"status", "True"}}}}}}});
  Start();
  ASSERT_TRUE(WaitReady("False"));
  EXPECT_EQ(Node()->label("mine"), "1");
  EXPECT_TRUE(Node()->unschedulable());
  EXPECT_EQ(Node()->volumes_in_use().size(), 1U);
  EXPECT_EQ(Node()->json()["status"]["conditions"].size(), 2U);
}

TEST_F(NodeStatusTest, AnAbsentApiIsWaitedFor) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  Start();
  EXPECT_FALSE(status_->WaitRegistered(std::chrono::milliseconds(20)));
  client_.SetOutage(base::OkStatus());
  EXPECT_TRUE(status_->WaitRegistered(std::chrono::seconds(10)));
}

TEST_F(NodeStatusTest, RenewsItsLease) {
  Start(std::chrono::milliseconds(20));
  const auto renewed = [&] {
    return base::json::String(client_.Peek(api::kinds::kLease, "kube-node-lease", "node-a"),
                              {"spec", "renewTime"});
  };
  ASSERT_TRUE(client_.WaitUntil([&] { return renewed() == "2026-01-01T00:00:00.000000Z"; }));
  clock_.Advance(std::chrono::seconds(9));
  EXPECT_TRUE(client_.WaitUntil([&] { return renewed() == "2026-01-01T00:00:09.000000Z"; }));
  const auto lease = client_.Peek(api::kinds::kLease, "kube-node-lease", "node-a");
  EXPECT_EQ(lease["spec"]["holderIdentity"], "node-a");
  EXPECT_EQ(lease["metadata"]["ownerReferences"][0]["uid"], Node()->uid());
}

TEST_F(NodeStatusTest, ALeaseThatSomebodyChangedIsReadAgain) {
  Start(std::chrono::milliseconds(20));
  ASSERT_TRUE(client_.WaitUntil(
      [&] { return !client_.Peek(api::kinds::kLease, "kube-node-lease", "node-a").is_null(); }));
  Json lease = client_.Peek(api::kinds::kLease, "kube-node-lease", "node-a");
  lease["metadata"]["annotations"] = {{"note", "kept"}};
  lease["spec"]["holderIdentity"] = "somebody";
  lease["spec"]["leaseDurationSeconds"] = 900;
  client_.Add(lease);
  EXPECT_TRUE(client_.WaitUntil([&] {
    const auto now = client_.Peek(api::kinds::kLease, "kube-node-lease", "node-a");
    return now["spec"]["holderIdentity"] == "node-a" && now["spec"]["leaseDurationSeconds"] == 1 &&
           base::json::String(now, {"metadata", "annotations", "note"}) == "kept";
  }));
}

TEST_F(NodeStatusTest, SaysThatItLivesWhenOthersSayItDoesNot) {
  Start();
  informers_.Start();
  status_->SetRuntime(true, "", "containerd://1.6.20");
  ASSERT_TRUE(WaitReady("True"));
  ASSERT_TRUE(
      client_
          .Patch(api::kinds::kNode, "", "node-a", kube::PatchType::kStrategicMerge,
                 {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}},
                 "status")
          .ok());
  EXPECT_TRUE(WaitReady("True"));
}

TEST_F(NodeStatusTest, RegistersAnewWhenItsNodeIsDeleted) {
  Start();
  informers_.Start();
  status_->SetRuntime(true, "", "containerd://1.6.20");
  ASSERT_TRUE(WaitReady("True"));
  const std::string uid = Node()->uid();
  ASSERT_TRUE(client_.Delete(api::kinds::kNode, "", "node-a", {}).ok());
  EXPECT_TRUE(client_.WaitUntil([&] { return Node().has_value() && Node()->uid() != uid; }));
  EXPECT_TRUE(WaitReady("True"));
}

TEST_F(NodeStatusTest, ARestartDoesNotSayNotReadyBeforeTheRuntimeWasAsked) {
  client_.Add({{"apiVersion", "v1"},
               {"kind", "Node"},
               {"metadata", {{"name", "node-a"}}},
               {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  Start();
  ASSERT_TRUE(status_->WaitRegistered(std::chrono::seconds(10)));
  EXPECT_FALSE(client_.WaitUntil([&] { return Ready()["status"] != "True"; },
                                 std::chrono::milliseconds(200)));
  // A runtime that gives no answer is told of in the end.
  EXPECT_TRUE(WaitReady("False"));
}

}  // namespace
}  // namespace berth::node
