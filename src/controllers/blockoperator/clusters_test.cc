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
  // Its status and its message; "": there is none of that type.
  std::string ConditionOf(const std::string& type) {
    const Json cluster = GetCluster().json();
    for (const Json& one : base::json::Array(cluster, {"status", "conditions"})) {
      if (one["type"] != type) continue;
      return one["status"].get<std::string>() + " " + one["message"].get<std::string>();
    }
    return "";
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
  EXPECT_EQ(ConditionOf("Ready"), "False no route to the server");
  EXPECT_TRUE(cluster_.events.WaitFor("Warning BackendFailed pool: no route"));
  store_->SetOutage(base::OkStatus());
  ASSERT_TRUE(WaitPhase("Ready"));
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(ConditionOf("Ready"), "True the back end answers");
}

TEST_F(ClustersTest, TheStatusOfAnEarlierVersionGetsItsCondition) {
  PutCluster({{"status", {{"phase", "Ready"}, {"message", ""}}}});
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !ConditionOf("Ready").empty(); }));
  EXPECT_EQ(ConditionOf("Ready"), "True the back end answers");
  EXPECT_EQ(Phase(), "Ready");
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

// A Ceph pool, which fences nodes, and keeps the fences of two of them.
class FencedClustersTest : public ClustersTest {
 protected:
  static constexpr char kClean[] = "10.0.0.5:0/3710147553";
  static constexpr char kGone[] = "10.0.0.6:0/1";

  FencedClustersTest() {
    store_->CanFence(true);
    // The cluster's own checks lift nothing in time.
    options_.check_interval = std::chrono::hours(1);
  }
  static Json Pool(const std::string& monitor) {
    return {{"rbd", {{"monitors", {monitor}}, {"pool", "kube"}}}};
  }
  // Changes what the object has, also its labels, so that the operator looks at it.
  void Change(const Json& patch) {
    ASSERT_TRUE(kube::MergePatch(cluster_.client, GetCluster(), patch).ok());
  }
  void Touch() { Change({{"metadata", {{"labels", {{"touched", "yes"}}}}}}); }
  void BeginReady() {
    PutPool();
    Start();
    ASSERT_TRUE(WaitPhase("Ready"));
    base::MutexLock lock(store_->images.mutex);
    store_->images.fenced = {{"node-a", {kClean}}, {"node-gone", {kGone}}};
  }
  void PutPool() {
    cluster_.Put(MakeNode("node-a"));
    cluster_.Put(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                      {"kind", "StorageCluster"},
                      {"metadata", {{"name", "pool"}}},
                      {"spec", {{"backend", Pool("10.0.0.1:6789")}}}});
  }
  // Also waits until the operator has recorded both fences, and could not lift that of node-a.
  void BeginRecorded() {
    store_->RefuseUnfence("node-a");
    BeginReady();
    Touch();
    ASSERT_TRUE(cluster_.WaitUntil([&] { return Recorded() == "node-a node-gone "; }));
  }
  bool IsFenced(const std::string& node) {
    base::MutexLock lock(store_->images.mutex);
    const auto found = store_->images.fenced.find(node);
    return found != store_->images.fenced.end() && !found->second.empty();
  }
  // The nodes in status.fenced.
  std::string Recorded() {
    std::string nodes;
    const Json cluster = GetCluster().json();
    for (const Json& one : base::json::Array(cluster, {"status", "fenced"})) {
      nodes += one["node"].get<std::string>() + " ";
    }
    return nodes;
  }
  std::string Condition() { return ConditionOf("FencesLeft"); }
  bool WaitCondition(const std::string& text) {
    return cluster_.WaitUntil([&] { return Condition().find(text) != std::string::npos; });
  }
};

TEST_F(FencedClustersTest, ADeletedClusterLeavesNoFenceOfANodeThatIsClean) {
  BeginReady();
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(IsFenced("node-a"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal NodeUnfenced pool"));
  EXPECT_TRUE(IsFenced("node-gone")) << "it may still write";
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning FencesLeft pool: the storage keeps the fences of nodes that are not back, and may "
      "write once they are let in: 'node-gone' (10.0.0.6:0/1); by hand: ceph osd blocklist rm "
      "10.0.0.6:0/1"));
}

TEST_F(FencedClustersTest, ADeletedClusterStaysUntilTheFenceOfACleanNodeIsLifted) {
  BeginRecorded();
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return Message().starts_with(
        "the storage has not lifted the fences of nodes that are clean (node-a): see the condition "
        "FencesLeft");
  }));
  EXPECT_TRUE(WaitCondition("True the storage still shuts out clients of nodes that are clean"));
  EXPECT_TRUE(
      WaitCondition("by hand: ceph osd blocklist rm 10.0.0.5:0/3710147553 (it failed: lift "
                    "the fence of node 'node-a': as the test wants)"));
  EXPECT_EQ(Condition().find("node-gone"), std::string::npos) << "nothing waits for it";
  EXPECT_TRUE(cluster_.events.WaitFor("Warning FencesLeft pool: the storage still shuts out"));
  // It is tried again, however long that takes.
  cluster_.clock.Advance(options_.fence_patience + std::chrono::minutes(1));
  AnswerCleanup("node-a", {{"state", "Clean"}});
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Cluster>("", "pool"); },
                                         std::chrono::milliseconds(200)));
  store_->RefuseUnfence("");
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(IsFenced("node-a"));
}

TEST_F(FencedClustersTest, ABackEndThatCannotBeOpenedLeavesNoFenceUntold) {
  BeginRecorded();
  EXPECT_TRUE(WaitCondition("True "));
  store_->Refuse("open", base::Error(StatusCode::kFailedPrecondition, "the program is not there"));
  Change({{"spec", {{"backend", Pool("10.0.0.2:6789")}}}});  // one that is open stays so
  Delete();
  ASSERT_TRUE(
      cluster_.events.WaitFor("Warning UnfenceFailed pool: list the fences: open the back "
                              "end of StorageCluster 'pool': the program is not there"));
  ASSERT_TRUE(WaitPhase("Deleting"));
  EXPECT_TRUE(WaitCondition("ceph osd blocklist rm 10.0.0.5:0/3710147553"));
  EXPECT_EQ(Recorded(), "node-a node-gone ");
  store_->RefuseUnfence("");
  store_->Refuse("open", base::OkStatus());
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(IsFenced("node-a"));
}

TEST_F(FencedClustersTest, TheFencesOfAClusterInUseAreToldUntilTheStorageAnswers) {
  BeginRecorded();
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no monitor answers"));
  Touch();
  ASSERT_TRUE(cluster_.events.WaitFor("UnfenceFailed pool: list the fences: no monitor answers"));
  EXPECT_TRUE(WaitCondition("True "));
  store_->RefuseUnfence("");
  store_->SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitCondition("False "));
  EXPECT_EQ(Recorded(), "node-gone ");
  EXPECT_FALSE(IsFenced("node-a"));
}

TEST_F(FencedClustersTest, AFenceIsRecordedWhenTheNextUserOfTheVolumeHasMadeIt) {
  BeginReady();
  Cleanup cleanup;
  cleanup.Set({"apiVersion"}, "storage.berth.dev/v1alpha1");
  cleanup.Set({"kind"}, "NodeCleanup");
  cleanup.set_name("node-b");
  cleanup.set_entries({{.volume = "pvc-uid-data",
                        .attachment = FenceEntryOf("node-b", "x"),
                        .cluster_name = "pool",
                        .image = "pvc-uid-data"}});
  cluster_.Put(MakeNode("node-b"));
  cluster_.Put(cleanup);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Recorded() == "node-gone "; }));
  // Until nothing asks the storage of itself any more.
  for (int before = store_->tries(); cluster_.client.WaitUntil(
           [&] { return store_->tries() != before; }, std::chrono::milliseconds(300));
       before = store_->tries()) {
  }
  {
    base::MutexLock lock(store_->images.mutex);
    store_->images.fenced["node-b"] = {"10.0.0.7:0/1"};
  }
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "y")});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Recorded() == "node-b node-gone "; }));
}

TEST_F(FencedClustersTest, AClusterWithoutAFenceThatIsKnownOfGoesWithoutItsStorage) {
  PutPool();
  store_->Refuse("fenced", base::Error(StatusCode::kUnavailable, "no monitor answers"));
  Start();
  ASSERT_TRUE(WaitPhase("Ready"));
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return Message() ==
           "waiting for the storage to lift fences: list the fences: no monitor answers";
  }));
  cluster_.clock.Advance(options_.fence_patience + std::chrono::minutes(1));
  AnswerCleanup("node-a", {{"state", "Clean"}});
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning FencesLeft pool: fences may be left in the storage (list the fences: no monitor "
      "answers); let in only nodes that are clean or switched off: by hand: ceph osd blocklist ls "
      "shows the addresses"));
}

TEST_F(FencedClustersTest, ABackEndWithoutFencesHoldsNothingUpAlsoIfItCannotBeOpened) {
  store_->CanFence(false);
  Begin();
  ASSERT_TRUE(WaitPhase("Ready"));
  store_->Refuse("open", base::Error(StatusCode::kFailedPrecondition, "the program is not there"));
  Change({{"spec", {{"backend", {{"images", {{"folder", "/srv/other"}}}}}}}});
  ASSERT_TRUE(WaitPhase("Failed"));
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(cluster_.events.WaitFor("FencesLeft", 1, std::chrono::milliseconds(0)));
  EXPECT_FALSE(cluster_.events.WaitFor("UnfenceFailed", 1, std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
