#include "controllers/blockoperator/block_operator_fixture.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;

class ClustersTest : public BlockOperatorTest {
 protected:
  std::string Phase() { return GetCluster().String({"status", "phase"}); }
  std::string Message() { return GetCluster().String({"status", "message"}); }
  bool WaitPhase(const std::string& phase) {
    return cluster_.WaitUntil([&] { return Phase() == phase; });
  }
  void Delete() { ASSERT_TRUE(kube::Delete(cluster_.client, GetCluster()).ok()); }
  // As the agent of a node.
  void AnswerCleanup(const std::string& node, const Json& said) {
    ASSERT_TRUE(kube::MergePatch(cluster_.client, GetCluster(),
                                 {{"status", {{"nodes", {{node, said}}}}}}, "status")
                    .ok());
  }
  bool WaitGone() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Cluster>("", "pool"); });
  }
};

TEST_F(ClustersTest, IsReadyWhereTheBackEndAnswers) {
  Begin();
  ASSERT_TRUE(WaitPhase("Ready"));
  EXPECT_TRUE(GetCluster().has_finalizer(api::kClusterFinalizer));
}

TEST_F(ClustersTest, SaysWhyTheBackEndIsNotThereAndWhenItIs) {
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no route to the server"));
  Begin();
  ASSERT_TRUE(WaitPhase("Failed"));
  EXPECT_EQ(Message(), "no route to the server");
  EXPECT_TRUE(cluster_.events.WaitFor("Warning BackendFailed pool: no route"));
  store_->SetOutage(base::OkStatus());
  ASSERT_TRUE(WaitPhase("Ready"));
  EXPECT_EQ(Message(), "");
}

TEST_F(ClustersTest, AFailureThatStaysIsCheckedMoreAndMoreSeldom) {
  options_.retry_start = std::chrono::milliseconds(1);
  options_.retry_max = std::chrono::hours(1);
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no route to the server"));
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return store_->tries() >= 5; }));
  // The delay doubles each time, so that 30 tries would take longer than a human life.
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return store_->tries() >= 30; },
                                         std::chrono::milliseconds(1000)));
  // Whoever changes the StorageCluster is answered at once.
  store_->SetOutage(base::OkStatus());
  PutCluster({{"spec", {{"backend", {{"images", {{"folder", "/srv/other"}}}}}}},
              {"metadata", {{"generation", 2}}}});
  EXPECT_TRUE(WaitPhase("Ready"));
}

TEST_F(ClustersTest, AFolderWhoseLocksStayOnTheNodeFailsWithTheReason) {
  store_->RefuseLocks(base::Error(StatusCode::kFailedPrecondition, "NFS is mounted with nolock"));
  Begin();
  ASSERT_TRUE(WaitPhase("Failed"));
  EXPECT_EQ(Message(), "NFS is mounted with nolock");
  EXPECT_TRUE(cluster_.events.WaitFor("Warning BackendFailed pool: NFS is mounted with nolock"));
  store_->RefuseLocks(base::OkStatus());
  EXPECT_TRUE(WaitPhase("Ready"));
}

TEST_F(ClustersTest, SettingsThatAreWrongFail) {
  cluster_.Put(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                    {"kind", "StorageCluster"},
                    {"metadata", {{"name", "pool"}}},
                    {"spec", {{"backend", {{"tape", Json::object()}}}}}});
  Start();
  ASSERT_TRUE(WaitPhase("Failed"));
  EXPECT_NE(Message().find("no back end is called so"), std::string::npos);
}

TEST_F(ClustersTest, OneThatNobodyUsesGoesAtOnceThoughItsBackEndIsOutOfReach) {
  Begin();
  ASSERT_TRUE(WaitPhase("Ready"));
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no route to the server"));
  Delete();
  EXPECT_TRUE(WaitGone());
}

TEST_F(ClustersTest, WaitsUntilEachNodeHasAnswered) {
  Begin();
  ASSERT_TRUE(WaitPhase("Ready"));
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  Delete();
  ASSERT_TRUE(WaitPhase("Deleting"));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return Message() == "waiting for nodes: 'node-a' (no answer from its agent)"; }));
  AnswerCleanup(
      "node-a",
      {{"state", "Cleaning"},
       {"volumes", {{{"volume", "pvc-uid-data"}, {"state", "Failed"}, {"message", "busy"}}}}});
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return Message() == "waiting for nodes: 'node-a' (Cleaning; pvc-uid-data: busy)"; }));
  // It is clean when its fence says so, too.
  AnswerCleanup("node-a", {{"state", "Clean"},
                           {"volumes", {{{"volume", "pvc-uid-data"}, {"state", "Forced"}}}}});
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Cluster>("", "pool"); },
                                         std::chrono::milliseconds(100)));
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(cluster_.events.WaitFor("0 unmapped, 1 forced off, 0 failed; 1 PersistentVolumes"));
  EXPECT_TRUE(cluster_.Has<Claim>("default", "data")) << "claims are retained";
}

TEST_F(ClustersTest, DoesWithoutANodeThatIsProvenGone) {
  options_.node_silence = std::chrono::milliseconds(60);
  Begin();
  ASSERT_TRUE(WaitPhase("Ready"));
  PutBound("data");
  MapOn("node-b", "pvc-uid-data");
  cluster_.Put(MakePod("web", "data"));
  PutFence("pvc-uid-data", {FenceEntryOf("node-b", "web")});
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Phase() == "Deleting"; }));
  // Each change of the cluster brings it here again.
  ASSERT_TRUE(cluster_.events.WaitFor("StaleAttachment"));
  std::this_thread::sleep_for(options_.node_silence);
  AnswerCleanup("node-a", {{"state", "Clean"}});
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(cluster_.events.WaitFor("the cleanup does not wait for node 'node-b'"));
}

TEST_F(ClustersTest, DeletesItsClaimsWhereThatIsAskedFor) {
  Begin();
  PutCluster({{"spec", {{"cleanup", {{"claims", "Delete"}}}}}});
  ASSERT_TRUE(WaitPhase("Ready"));
  PutBound("data");
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim("data").deleting(); }));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return Message() == "waiting for images to be deleted: pvc-uid-data"; }));
  Release("data");
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(store_->Has("pvc-uid-data"));
}

TEST_F(ClustersTest, DoesNotWaitForeverForImagesOfABackEndThatIsOutOfReach) {
  Begin();
  PutCluster({{"spec", {{"cleanup", {{"claims", "Delete"}}}}}});
  ASSERT_TRUE(WaitPhase("Ready"));
  PutBound("data");
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no route to the server"));
  Delete();
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return Message() == "waiting for images to be deleted: pvc-uid-data"; }));
  cluster_.clock.Advance(options_.image_patience + std::chrono::minutes(1));
  AnswerCleanup("node-a", {{"state", "Clean"}});
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
  EXPECT_TRUE(cluster_.events.WaitFor("StorageCluster 'pool' is gone"));
}

// A storage that fences nodes, and keeps the fences of two of them.
class FencedClustersTest : public ClustersTest {
 protected:
  FencedClustersTest() {
    store_->CanFence(true);
    // The cluster's own checks lift nothing in time.
    options_.check_interval = std::chrono::hours(1);
  }
  void BeginReady() {
    Begin();
    ASSERT_TRUE(WaitPhase("Ready"));
    base::MutexLock lock(store_->images.mutex);
    store_->images.fenced = {{"node-a", {"x#1"}}, {"node-gone", {"x#2"}}};
  }
  bool IsFenced(const std::string& node) {
    base::MutexLock lock(store_->images.mutex);
    const auto found = store_->images.fenced.find(node);
    return found != store_->images.fenced.end() && !found->second.empty();
  }
};

TEST_F(FencedClustersTest, ADeletedClusterLeavesNoFenceOfANodeThatIsClean) {
  BeginReady();
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(IsFenced("node-a"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal NodeUnfenced pool"));
  EXPECT_TRUE(IsFenced("node-gone")) << "it may still write";
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning FencesLeft pool: the storage keeps the fences of "
                              "nodes that are not back: node-gone"));
}

TEST_F(FencedClustersTest, ADeletedClusterWaitsForAFenceThatCannotBeLiftedButNotForever) {
  BeginReady();
  store_->RefuseUnfence("node-a");
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return Message().starts_with(
        "waiting for the storage to lift fences: lift the fence of node 'node-a'");
  }));
  EXPECT_TRUE(cluster_.Has<Cluster>("", "pool"));
  cluster_.clock.Advance(options_.fence_patience + std::chrono::minutes(1));
  AnswerCleanup("node-a", {{"state", "Clean"}});
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning FencesLeft pool: fences may be left in the storage"));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
