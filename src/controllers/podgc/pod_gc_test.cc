#include "controllers/podgc/pod_gc.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::podgc {
namespace {

using base::Json;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::Not;

Json On(const std::string& node) { return {{"spec", {{"nodeName", node}}}}; }

Json Deleting(const std::string& node) {
  return {{"metadata",
           {{"deletionTimestamp", "2026-01-01T00:00:30Z"}, {"deletionGracePeriodSeconds", 30}}},
          {"spec", {{"nodeName", node}}}};
}

Json Ended(const std::string& created, const std::string& reason = "") {
  return {{"metadata", {{"creationTimestamp", created}}},
          {"spec", {{"nodeName", "node-a"}}},
          {"status", {{"phase", "Failed"}, {"reason", reason}}}};
}

class PodGcTest : public ::testing::Test {
 protected:
  void Begin(Options options = {.quarantine = milliseconds(50),
                                .count_interval = milliseconds(5)}) {
    cluster_.Add<PodGc>(options);
    cluster_.Put(MakeNode("node-a"));
    cluster_.Start();
  }
  bool Has(const std::string& pod) { return cluster_.Has<api::Pod>("default", pod); }
  bool WaitGone(const std::string& pod) {
    return cluster_.WaitUntil([&] { return !Has(pod); });
  }

  FakeCluster cluster_;
};

TEST_F(PodGcTest, PodsOfAVanishedNodeFailAndGo) {
  cluster_.Put(MakePod("orphan", "", On("node-b")));
  cluster_.Put(MakePod("living", "", On("node-a")));
  Begin();
  ASSERT_TRUE(WaitGone("orphan"));
  EXPECT_TRUE(Has("living"));
  const auto actions = cluster_.client.TakeActions();
  ASSERT_GE(actions.size(), 1U);
  EXPECT_THAT(actions[0], ::testing::HasSubstr("patch pods/default/orphan/status"));
  EXPECT_THAT(actions[0], ::testing::HasSubstr("PodGC: node no longer exists"));
  EXPECT_THAT(actions[0], ::testing::HasSubstr(R"("phase":"Failed")"));
}

TEST_F(PodGcTest, ANodeThatComesBackInTimeKeepsItsPods) {
  cluster_.Put(MakeNode("node-b"));
  cluster_.Put(MakePod("web", "", On("node-b")));
  Begin({.quarantine = milliseconds(300)});
  cluster_.client.Remove(api::kinds::kNode, "", "node-b");
  cluster_.Put(MakeNode("node-b"));
  cluster_.Put(MakePod("orphan", "", On("node-c")));
  ASSERT_TRUE(WaitGone("orphan"));  // whose quarantine began later
  EXPECT_TRUE(Has("web"));
}

TEST_F(PodGcTest, ANodeThatVanishesTwiceIsWaitedForTwice) {
  cluster_.Put(MakeNode("node-b"));
  cluster_.Put(MakePod("web", "", On("node-b")));
  Begin({.quarantine = milliseconds(600)});
  cluster_.client.Remove(api::kinds::kNode, "", "node-b");
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !Has("web"); }, milliseconds(400)));
  cluster_.Put(MakeNode("node-b"));
  cluster_.client.Remove(api::kinds::kNode, "", "node-b");
  // By now the first absence began longer ago than the quarantine lasts, the second one did not.
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !Has("web"); }, milliseconds(400)));
  EXPECT_TRUE(WaitGone("web"));
}

TEST_F(PodGcTest, AnApiThatDoesNotAnswerLosesNoPod) {
  Begin();
  cluster_.Put(MakePod("orphan", "", On("node-b")));
  cluster_.client.FailNext("get", "nodes", base::Error(base::StatusCode::kUnavailable, "away"));
  // The first look fails, and the pod stays; the next, a second later, sees that the node is gone.
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !Has("orphan"); }, milliseconds(500)));
  ASSERT_TRUE(WaitGone("orphan"));
}

TEST_F(PodGcTest, AStaleInformerLosesNoPod) {
  Begin();
  // The API knows the node, the informer not yet: its watch is the last to hear of it.
  cluster_.client.FailNext("get", "nodes", base::Error(base::StatusCode::kUnavailable, "away"));
  cluster_.Put(MakePod("early", "", On("node-b")));
  cluster_.Put(MakeNode("node-b"));
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !Has("early"); }, milliseconds(300)));
}

TEST_F(PodGcTest, PodsBeingDeletedGoFromAnOutOfServiceNodeOnly) {
  const Json down = {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}};
  cluster_.Put(MakeNode("node-b", down));
  cluster_.Put(MakePod("leaving", "", Deleting("node-b")));
  cluster_.Put(MakePod("staying", "", On("node-b")));
  cluster_.Put(MakePod("elsewhere", "", Deleting("node-a")));
  Begin();
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !Has("leaving"); }, milliseconds(200)));
  cluster_.Put(MakeNode(
      "node-b",
      Merged(down, {{"spec",
                     {{"taints",
                       {{{"key", std::string(kOutOfServiceTaint)}, {"effect", "NoExecute"}}}}}}})));
  ASSERT_TRUE(WaitGone("leaving"));
  EXPECT_TRUE(Has("staying"));
  EXPECT_TRUE(Has("elsewhere"));
}

TEST_F(PodGcTest, APodBeingDeletedOnNoNodeGoes) {
  cluster_.Put(MakePod("nowhere", "", Deleting("")));
  Begin();
  EXPECT_TRUE(WaitGone("nowhere"));
}

TEST_F(PodGcTest, OfTooManyEndedPodsEvictedOnesGoFirstThenTheOldest) {
  cluster_.Put(MakePod("a-old", "", Ended("2025-01-01T00:00:00Z")));
  cluster_.Put(MakePod("b-new", "", Ended("2025-03-01T00:00:00Z")));
  cluster_.Put(MakePod("c-evicted", "", Ended("2025-04-01T00:00:00Z", "Evicted")));
  cluster_.Put(MakePod("d-newest", "", Ended("2025-05-01T00:00:00Z")));
  Begin({.terminated_threshold = 2, .count_interval = milliseconds(5)});
  ASSERT_TRUE(WaitGone("c-evicted"));
  ASSERT_TRUE(WaitGone("a-old"));
  EXPECT_TRUE(Has("b-new"));
  EXPECT_TRUE(Has("d-newest"));
}

TEST_F(PodGcTest, APodThatFinalizersHoldIsAskedOnce) {
  cluster_.Put(MakePod(
      "held", "", Merged(Deleting(""), {{"metadata", {{"finalizers", {"example.com/hold"}}}}})));
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto pod = cluster_.Get<api::Pod>("default", "held");
    return pod.Int({"metadata", "deletionGracePeriodSeconds"}) == 0 && pod.phase() == "Failed";
  }));
  cluster_.Put(MakePod("first", "", Deleting("")));
  ASSERT_TRUE(WaitGone("first"));
  cluster_.client.TakeActions();
  // What brings it to the controller again, and what shows that it was looked at.
  api::Pod held = cluster_.Get<api::Pod>("default", "held");
  held.set_label("touched", "yes");
  cluster_.Put(held);
  cluster_.Put(MakePod("second", "", Deleting("")));
  ASSERT_TRUE(WaitGone("second"));
  EXPECT_THAT(cluster_.client.ActionNames(), Not(Contains("delete pods/default/held")));
}

}  // namespace
}  // namespace berth::controllers::podgc
