#include "controllers/nodelifecycle/node_lifecycle.h"

#include <gmock/gmock.h>

#include <atomic>

#include "api/time.h"
#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::nodelifecycle {
namespace {

using base::Json;
using base::json::String;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr const char* kLeases = "kube-node-lease";

class NodeLifecycleTest : public ::testing::Test {
 protected:
  void Begin(std::chrono::milliseconds late = std::chrono::hours(24)) {
    Options options;
    options.late = late;
    options.check_interval = milliseconds(2);
    options.now = [this] { return steady_clock::time_point(seconds(1000)) + elapsed_.load(); };
    cluster_.Add<NodeLifecycle>(options);
    cluster_.Start();
  }
  void AddNode(const std::string& name) {
    cluster_.Put(MakeNode(name));
    Renew(name);
  }
  Json Renewed(const std::string& name) {
    return {{"apiVersion", "coordination.k8s.io/v1"},
            {"kind", "Lease"},
            {"metadata", {{"name", name}, {"namespace", kLeases}}},
            {"spec", {{"renewTime", fmt::format("renewal {}", ++renewals_)}}}};
  }
  void Renew(const std::string& name) { cluster_.Put(Renewed(name)); }
  void PassTime(milliseconds time) { elapsed_ = elapsed_.load() + time; }
  void SetReady(const std::string& node, const std::string& status) {
    cluster_.Put(
        MakeNode(node, {{"spec", cluster_.Get<api::Node>("", node).json()["spec"]},
                        {"status",
                         {{"conditions",
                           {{{"type", "Ready"},
                             {"status", status},
                             {"lastHeartbeatTime", fmt::format("beat {}", ++renewals_)}}}}}}}));
  }
  std::string Ready(const std::string& node) {
    const api::Node object = cluster_.Get<api::Node>("", node);
    const Json* ready = object.condition("Ready");
    return ready == nullptr ? "" : String(*ready, {"status"});
  }
  bool HasTaint(const std::string& node, std::string_view key, const std::string& effect) {
    const api::Node object = cluster_.Get<api::Node>("", node);
    for (const Json& taint : object.taints()) {
      if (String(taint, {"key"}) == key && String(taint, {"effect"}) == effect) return true;
    }
    return false;
  }
  bool WaitReady(const std::string& node, const std::string& status) {
    return cluster_.WaitUntil([&] { return Ready(node) == status; });
  }
  bool WaitTaint(const std::string& node, std::string_view key, const std::string& effect) {
    return cluster_.WaitUntil([&] { return HasTaint(node, key, effect); });
  }
  // Time for many rounds of the workers, in which nothing is to happen.
  bool Never(const std::function<bool()>& condition) {
    return !cluster_.client.WaitUntil(condition, milliseconds(150));
  }
  static Json On(const std::string& node, const Json& tolerations = Json::array()) {
    return {{"spec", {{"nodeName", node}, {"tolerations", tolerations}}},
            {"status",
             {{"phase", "Running"}, {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  }
  static Json Tolerate(std::string_view key, std::optional<int> time = std::nullopt) {
    Json toleration = {{"key", std::string(key)}, {"operator", "Exists"}, {"effect", "NoExecute"}};
    if (time) toleration["tolerationSeconds"] = *time;
    return toleration;
  }
  bool Deleting(const std::string& pod) {
    return cluster_.Get<api::Pod>("default", pod).deleting();
  }

  std::atomic<milliseconds> elapsed_{milliseconds(0)};
  std::atomic<int> renewals_{0};
  FakeCluster cluster_;
};

TEST_F(NodeLifecycleTest, ASilentNodeBecomesUnknownIsTaintedAndComesBack) {
  AddNode("node-a");
  AddNode("node-b");
  cluster_.Put(MakePod("web", "", On("node-b", Json::array({Tolerate(kUnreachableTaint)}))));
  Begin();
  PassTime(seconds(39));
  EXPECT_TRUE(Never([&] { return Ready("node-b") != "True"; }));
  Renew("node-a");
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto lease = cluster_.informers.Of<api::Lease>().Get(kLeases, "node-a");
    return lease != nullptr && lease->renew_time() == fmt::format("renewal {}", renewals_.load());
  }));
  PassTime(seconds(2));
  ASSERT_TRUE(WaitReady("node-b", "Unknown"));
  EXPECT_TRUE(WaitTaint("node-b", kUnreachableTaint, "NoSchedule"));
  EXPECT_TRUE(WaitTaint("node-b", kUnreachableTaint, "NoExecute"));
  // What the node did not say is not made up: the API would refuse an empty time.
  const api::Node silent = cluster_.Get<api::Node>("", "node-b");
  EXPECT_FALSE(silent.condition("Ready")->contains("lastHeartbeatTime"));
  EXPECT_EQ(Ready("node-a"), "True");
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return !cluster_.Get<api::Pod>("default", "web").ready(); }));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal NodeNotReady node-b"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning NodeNotReady default/web"));
  SetReady("node-b", "True");
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Get<api::Node>("", "node-b").taints().empty(); }));
}

TEST_F(NodeLifecycleTest, ANodeThatNeverSpokeHasALittleMoreTime) {
  AddNode("node-a");
  cluster_.Put(MakeNode("node-b", {{"status", {{"conditions", nullptr}}}}));
  Begin();
  PassTime(seconds(50));
  Renew("node-a");
  EXPECT_TRUE(Never([&] { return !Ready("node-b").empty(); }));
  PassTime(seconds(11));
  ASSERT_TRUE(WaitReady("node-b", "Unknown"));
  const api::Node silent = cluster_.Get<api::Node>("", "node-b");
  EXPECT_EQ(String(*silent.condition("Ready"), {"reason"}), "NodeStatusNeverUpdated");
  EXPECT_EQ(String(*silent.condition("Ready"), {"lastHeartbeatTime"}), silent.creation_timestamp());
}

TEST_F(NodeLifecycleTest, ARenewedLeaseKeepsANodeThatWritesNoStatus) {
  AddNode("node-a");
  AddNode("node-b");
  Begin();
  for (int i = 0; i < 10; ++i) {
    PassTime(seconds(30));
    Renew("node-a");
    Renew("node-b");
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      const auto lease = cluster_.informers.Of<api::Lease>().Get(kLeases, "node-b");
      return lease->renew_time() == fmt::format("renewal {}", renewals_.load());
    }));
  }
  EXPECT_TRUE(Never([&] { return Ready("node-a") != "True" || Ready("node-b") != "True"; }));
}

TEST_F(NodeLifecycleTest, AnInformerThatHearsNothingMarksNobody) {
  AddNode("node-a");
  AddNode("node-b");
  Begin();
  // Only the watch of leases is deaf: the API itself knows of the renewal.
  cluster_.informers.Of<api::Lease>().Stop();
  cluster_.client.Add(Renewed("node-a"));
  cluster_.client.Add(Renewed("node-b"));
  PassTime(seconds(41));
  EXPECT_TRUE(Never([&] { return Ready("node-a") != "True" || Ready("node-b") != "True"; }));
}

TEST_F(NodeLifecycleTest, AnAbsentApiAndALateCheckMarkNobody) {
  AddNode("node-a");
  AddNode("node-b");
  Begin(seconds(10));
  ASSERT_TRUE(cluster_.events.WaitFor("RegisteredNode", 2));
  cluster_.client.SetOutage(base::Error(base::StatusCode::kUnavailable, "away"));
  // The process stood still, or waited for the API, for an hour.
  PassTime(std::chrono::hours(1));
  EXPECT_TRUE(Never([&] { return Ready("node-a") != "True" || Ready("node-b") != "True"; }));
  cluster_.client.SetOutage(base::OkStatus());
  PassTime(seconds(9));
  EXPECT_TRUE(Never([&] { return Ready("node-a") != "True" || Ready("node-b") != "True"; }));
}

TEST_F(NodeLifecycleTest, WhenNoNodeIsReadyNobodyIsEvicted) {
  AddNode("node-a");
  AddNode("node-b");
  cluster_.Put(MakePod("web", "", On("node-a")));
  Begin();
  PassTime(seconds(41));
  ASSERT_TRUE(WaitReady("node-a", "Unknown"));
  ASSERT_TRUE(WaitReady("node-b", "Unknown"));
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return HasTaint("node-a", kUnreachableTaint, "NoSchedule") &&
           !HasTaint("node-a", kUnreachableTaint, "NoExecute") &&
           HasTaint("node-b", kUnreachableTaint, "NoSchedule") &&
           !HasTaint("node-b", kUnreachableTaint, "NoExecute");
  }));
  EXPECT_FALSE(Deleting("web"));
}

TEST_F(NodeLifecycleTest, NodesAreTaintedForEvictionOneByOne) {
  AddNode("node-a");
  for (const char* name : {"node-b", "node-c"}) {
    cluster_.Put(
        MakeNode(name, {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "False"}}}}}}}));
  }
  Begin();
  const auto tainted = [&] {
    return static_cast<int>(HasTaint("node-b", kNotReadyTaint, "NoExecute")) +
           static_cast<int>(HasTaint("node-c", kNotReadyTaint, "NoExecute"));
  };
  ASSERT_TRUE(cluster_.WaitUntil([&] { return tainted() == 1; }));
  EXPECT_TRUE(Never([&] { return tainted() == 2; }));
  EXPECT_TRUE(HasTaint("node-b", kNotReadyTaint, "NoSchedule"));
  EXPECT_TRUE(HasTaint("node-c", kNotReadyTaint, "NoSchedule"));
  PassTime(seconds(10));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return tainted() == 2; }));
}

TEST_F(NodeLifecycleTest, PodsGoWhenTheirTolerationEnds) {
  AddNode("node-a");
  cluster_.Put(
      MakeNode("node-b", {{"spec", {{"taints", {{{"key", "broken"}, {"effect", "NoExecute"}}}}}}}));
  Renew("node-b");
  cluster_.Put(MakePod("none", "", On("node-b")));
  cluster_.Put(MakePod("short", "", On("node-b", Json::array({Tolerate("broken", 5)}))));
  cluster_.Put(MakePod("ever", "", On("node-b", Json::array({Tolerate("broken")}))));
  cluster_.Put(MakePod("elsewhere", "", On("node-a")));
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Deleting("none"); }));
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal TaintManagerEviction default/none: Marking for deletion Pod default/none"));
  const api::Pod evicted = cluster_.Get<api::Pod>("default", "none");
  ASSERT_NE(evicted.condition("DisruptionTarget"), nullptr);
  EXPECT_EQ(String(*evicted.condition("DisruptionTarget"), {"reason"}), "DeletionByTaintManager");
  EXPECT_TRUE(Never([&] { return Deleting("short"); }));  // its time begins
  PassTime(seconds(4));
  EXPECT_TRUE(Never([&] { return Deleting("short"); }));
  PassTime(seconds(2));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Deleting("short"); }));
  EXPECT_TRUE(Never([&] { return Deleting("ever") || Deleting("elsewhere"); }));
}

TEST_F(NodeLifecycleTest, ATaintThatGoesInTimeSparesThePod) {
  AddNode("node-a");
  cluster_.Put(
      MakeNode("node-b", {{"spec", {{"taints", {{{"key", "broken"}, {"effect", "NoExecute"}}}}}}}));
  cluster_.Put(MakePod("web", "", On("node-b", Json::array({Tolerate("broken", 300)}))));
  Begin();
  EXPECT_TRUE(Never([&] { return Deleting("web"); }));  // its time begins
  PassTime(seconds(20));
  cluster_.Put(MakeNode("node-b"));
  ASSERT_TRUE(cluster_.events.WaitFor("Cancelling deletion of Pod default/web"));
  Renew("node-b");
  PassTime(seconds(30));
  EXPECT_TRUE(Never([&] { return Deleting("web"); }));
}

}  // namespace
}  // namespace berth::controllers::nodelifecycle
