#include "controllers/blockoperator/block_operator_fixture.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;

constexpr char kVolume[] = "pvc-uid-data";

Json MakeLease(const std::string& node, const std::string& renewed) {
  return {{"apiVersion", "coordination.k8s.io/v1"},
          {"kind", "Lease"},
          {"metadata", {{"name", node}, {"namespace", "kube-node-lease"}}},
          {"spec", {{"renewTime", renewed}, {"leaseDurationSeconds", 0}}}};
}

class StaleUsesTest : public BlockOperatorTest {
 protected:
  // Two nodes, and a pod on node-b that has the volume.
  void BeginWithUse() {
    Begin();
    cluster_.Put(MakeNode("node-b"));
    cluster_.Put(MakeLease("node-b", "2026-01-01T00:00:00.000000Z"));
    cluster_.Put(MakePod("web", "data", {{"spec", {{"nodeName", "node-b"}}}}));
    PutBound("data");
    MapOn("node-b", kVolume);
    PutFence(kVolume, {FenceEntryOf("node-b", "web")});
  }
  void EndPod() { cluster_.client.Remove(api::Pod::kInfo, "default", "web"); }
  void EndNode() { cluster_.client.Remove(api::Node::kInfo, "", "node-b"); }
  std::vector<api::CleanupEntry> Remembered() {
    return cluster_.Get<Cleanup>("", "node-b").entries();
  }
  bool WaitRemembered() {
    return cluster_.WaitUntil([&] { return Remembered().size() == 1; });
  }
  bool WaitFree() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Fence>("", kVolume); });
  }
};

TEST_F(StaleUsesTest, NothingIsDoneWhereTheNodeIs) {
  BeginWithUse();
  EndPod();
  PutFence("other", {FenceEntryOf("node-gone", "x")});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Has<Cleanup>("", "node-gone"); }));
  EXPECT_FALSE(cluster_.Has<Cleanup>("", "node-b"));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume));
}

TEST_F(StaleUsesTest, TheEndOfANodeIsRememberedAndTheLockKeepsTheFence) {
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(WaitRemembered());
  EXPECT_EQ(Remembered()[0].volume, kVolume);
  EXPECT_EQ(Remembered()[0].image, kVolume);
  EXPECT_EQ(Remembered()[0].attachment, FenceEntryOf("node-b", "web"));
  ASSERT_TRUE(cluster_.events.WaitFor("StaleAttachment pvc-uid-data"));
  ASSERT_TRUE(cluster_.events.WaitFor("the back end holds a lock"));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume)) << "its kernel may still write";
  UnmapOn("node-b", kVolume);
  ASSERT_TRUE(WaitFree());
  EXPECT_TRUE(cluster_.events.WaitFor("Normal FenceBroken pvc-uid-data: took pod 'default/web'"));
  EXPECT_EQ(Remembered().size(), 1U) << "what it left is taken off if it returns";
}

TEST_F(StaleUsesTest, APodThatIsStillThereKeepsTheFence) {
  BeginWithUse();
  UnmapOn("node-b", kVolume);
  EndNode();
  ASSERT_TRUE(cluster_.events.WaitFor("the pod still exists"));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume));
  // The workload's next pod has the same name.
  EndPod();
  cluster_.Put(MakePod("web", "data", {{"metadata", {{"uid", "another"}}}}));
  EXPECT_TRUE(WaitFree());
}

TEST_F(StaleUsesTest, ALeaseThatIsRenewedKeepsTheFence) {
  options_.node_silence = std::chrono::milliseconds(300);
  BeginWithUse();
  UnmapOn("node-b", kVolume);
  EndPod();
  EndNode();
  for (int i = 0; i < 20; ++i) {
    cluster_.Put(MakeLease("node-b", fmt::format("2026-01-01T00:00:{:02}.000000Z", i)));
    ASSERT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Fence>("", kVolume); },
                                           std::chrono::milliseconds(40)));
  }
  EXPECT_TRUE(WaitFree());
}

TEST_F(StaleUsesTest, ANodeThatCameBackInBetweenIsWatchedAnew) {
  options_.node_silence = std::chrono::seconds(1);
  BeginWithUse();
  EndPod();
  EndNode();
  // Its silence is being measured.
  ASSERT_TRUE(cluster_.events.WaitFor("StaleAttachment pvc-uid-data"));
  cluster_.Put(MakeNode("node-b"));
  UnmapOn("node-b", kVolume);
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Fence>("", kVolume); },
                                         std::chrono::milliseconds(1200)));
  EndNode();
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Fence>("", kVolume); },
                                         std::chrono::milliseconds(700)))
      << "what it was silent for before counts no more";
  EXPECT_TRUE(WaitFree());
}

TEST_F(StaleUsesTest, TheTaintOutOfServiceIsAPersonsWord) {
  BeginWithUse();
  EndPod();
  cluster_.Put(MakeNode(
      "node-b",
      {{"spec",
        {{"taints", {{{"key", std::string(kOutOfServiceTaint)}, {"effect", "NoExecute"}}}}}}}));
  ASSERT_TRUE(WaitFree());
  EXPECT_EQ(Remembered().size(), 1U);
  EXPECT_TRUE(cluster_.events.WaitFor("carries the taint node.kubernetes.io/out-of-service"));
}

TEST_F(StaleUsesTest, ABackEndThatKnowsNoLocksHasToShutTheNodeOut) {
  store_->KnowsLocks(false);
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(cluster_.events.WaitFor("the back end knows of no locks"));
  ASSERT_TRUE(cluster_.events.WaitFor("berth fence break --dangerous pvc-uid-data"));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume));
  store_->CanFence(true);
  EXPECT_TRUE(WaitFree());
}

TEST_F(StaleUsesTest, ALockThatNobodyEverSawKeepsTheFenceThoughThereIsNone) {
  store_->HideLocksOf("node-b");
  BeginWithUse();
  UnmapOn("node-b", kVolume);
  EndPod();
  EndNode();
  ASSERT_TRUE(cluster_.events.WaitFor("no lock of node 'node-b' was ever seen"));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume)) << "it may write on";
  store_->CanFence(true);
  EXPECT_TRUE(WaitFree());
}

class FencingStaleUsesTest : public StaleUsesTest {
 protected:
  FencingStaleUsesTest() { store_->CanFence(true); }
  void SetUnreachable(const std::string& node) {
    cluster_.Put(MakeNode(
        node,
        {{"spec",
          {{"taints", {{{"key", std::string(kUnreachableTaint)}, {"effect", "NoExecute"}}}}}}}));
  }
  void EndPodAt(const std::string& time) {
    base::Json pod = cluster_.Get<api::Pod>("default", "web").json();
    pod["metadata"]["deletionTimestamp"] = time;
    pod["metadata"]["finalizers"] = {"test/keep"};
    cluster_.Put(pod);
  }
  std::vector<std::string> Fenced() {
    base::MutexLock lock(store_->images.mutex);
    return store_->images.fenced["node-b"];
  }
};

TEST_F(FencingStaleUsesTest, ADeletedNodesVolumeMovesWithoutAnyWaitForItsSilence) {
  options_.node_silence = std::chrono::hours(1);
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(WaitFree());
  EXPECT_EQ(Remembered().size(), 1U) << "so that the next user has the storage fence the node";
  EXPECT_TRUE(cluster_.events.WaitFor("the storage fences it before another node maps the image"));
  EXPECT_THAT(Fenced(), ::testing::IsEmpty()) << "while nobody holds the VolumeFence";
}

TEST_F(FencingStaleUsesTest, AnUnreachableNodesVolumeMovesOnceItsPodsTimeIsOver) {
  BeginWithUse();
  SetUnreachable("node-b");
  // A pod that is not being deleted uses its volume by right.
  PutFence("other", {FenceEntryOf("node-gone", "x")});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Has<Cleanup>("", "node-gone"); }));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume));
  EXPECT_FALSE(cluster_.Has<Cleanup>("", "node-b"));
  EndPodAt("2100-01-01T00:00:00Z");
  EXPECT_FALSE(cluster_.client.WaitUntil([&] { return !cluster_.Has<Fence>("", kVolume); },
                                         std::chrono::milliseconds(200)));
  EndPodAt("2026-01-01T00:00:00Z");
  ASSERT_TRUE(WaitFree());
  EXPECT_EQ(Remembered().size(), 1U);
  EXPECT_TRUE(cluster_.events.WaitFor("node 'node-b' is unreachable"));
}

TEST_F(FencingStaleUsesTest, AVolumeThatNobodyWaitsForIsLookedAtMoreAndMoreSeldom) {
  options_.retry_start = std::chrono::milliseconds(1);
  options_.retry_max = std::chrono::hours(1);
  BeginWithUse();
  SetUnreachable("node-b");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return store_->looks() >= 5; }));
  // The delay doubles each time.
  const auto is_polled = [&] { return store_->looks() >= 40; };
  EXPECT_FALSE(cluster_.client.WaitUntil(is_polled, std::chrono::milliseconds(1000)));
  // A request that is refused wakes it, and is not kept waiting once the old pod is deleted.
  Fence fence = cluster_.Get<Fence>("", kVolume);
  fence.mutable_json()["status"]["conditions"] =
      Json::array({Json{{"type", "Blocked"}, {"status", "True"}}});
  cluster_.Put(fence);
  EXPECT_TRUE(cluster_.client.WaitUntil(is_polled));
  EndPod();
  EXPECT_TRUE(WaitFree());
}

TEST_F(FencingStaleUsesTest, AnUnreachableNodeKeepsItsVolumesWhereNothingFencesIt) {
  store_->CanFence(false);
  BeginWithUse();
  EndPod();
  SetUnreachable("node-b");
  PutFence("other", {FenceEntryOf("node-gone", "x")});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return cluster_.Has<Cleanup>("", "node-gone"); }));
  EXPECT_TRUE(cluster_.Has<Fence>("", kVolume));
  EXPECT_FALSE(cluster_.Has<Cleanup>("", "node-b"));
}

TEST_F(FencingStaleUsesTest, AVolumeThatADeadNodeHoldsIsFencedBeforeItIsDeleted) {
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(WaitFree());
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !store_->Has(kVolume); }));
  EXPECT_THAT(Fenced(), ::testing::SizeIs(1));
}

TEST_F(FencingStaleUsesTest, AFenceStandsUntilTheNodeIsCleanAndIsThenLifted) {
  options_.check_interval = std::chrono::milliseconds(20);
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(WaitFree());
  // The agent that has the volume next.
  block::FakeBackend next(store_->images, "node-a");
  const auto clients = next.FindClients(kVolume, api::NodeName("node-b"));
  ASSERT_THAT(*clients, ::testing::SizeIs(1));
  ASSERT_TRUE(next.Fence(kVolume, api::NodeName("node-b"), *clients).ok());
  ASSERT_THAT(Fenced(), ::testing::SizeIs(1));
  EXPECT_FALSE(
      cluster_.client.WaitUntil([&] { return Fenced().empty(); }, std::chrono::milliseconds(300)));
  // A lost object proves nothing.
  cluster_.client.Remove(Cleanup::kInfo, "", "node-b");
  EXPECT_FALSE(
      cluster_.client.WaitUntil([&] { return Fenced().empty(); }, std::chrono::milliseconds(300)));
  // The node is back, and its agent has taken the volume off.
  cluster_.Put(MakeNode("node-b"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Fenced().empty(); }));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal NodeUnfenced pool"));
}

TEST_F(FencingStaleUsesTest, AFenceThatCannotBeLiftedIsToldAndKeepsNoOtherNodeFenced) {
  options_.check_interval = std::chrono::hours(1);
  store_->RefuseUnfence("node-b");
  {
    base::MutexLock lock(store_->images.mutex);
    store_->images.fenced = {{"node-b", {"x#1"}}, {"node-c", {"x#2"}}};
  }
  cluster_.Put(MakeNode("node-b"));
  cluster_.Put(MakeNode("node-c"));
  Begin();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning UnfenceFailed pool"));
  EXPECT_TRUE(cluster_.events.WaitFor("lift the fence of node 'node-b': as the test wants"));
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    base::MutexLock lock(store_->images.mutex);
    return !store_->images.fenced.contains("node-c");
  }));
  EXPECT_THAT(Fenced(), ::testing::SizeIs(1));
  store_->RefuseUnfence("");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Fenced().empty(); })) << "it is tried again";
}

TEST_F(StaleUsesTest, OthersThatUseTheVolumeStayInTheFence) {
  Begin();
  PutBound("data", {{"spec", {{"accessModes", {"ReadOnlyMany"}}}}});
  PutFence(kVolume, {FenceEntryOf("node-a", "here"), FenceEntryOf("node-b", "web")});
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Get<Fence>("", kVolume).entries().size() == 1; }));
  EXPECT_EQ(cluster_.Get<Fence>("", kVolume).entries()[0], FenceEntryOf("node-a", "here"));
}

TEST_F(StaleUsesTest, NoEntryIsLostWhereAnotherWritesTheSameCleanup) {
  Begin();
  PutBound("data");
  Cleanup cleanup;
  cleanup.Set({"apiVersion"}, "storage.berth.dev/v1alpha1");
  cleanup.Set({"kind"}, "NodeCleanup");
  cleanup.set_name("node-b");
  // Its image is there, so that the operator does not take the entry for one of a volume that is
  // gone.
  store_->Add("other", 1);
  cleanup.set_entries({{.volume = "other",
                        .attachment = FenceEntryOf("node-b", "x"),
                        .cluster_name = "pool",
                        .image = "other"}});
  cluster_.Put(cleanup);
  cluster_.client.FailNext("patch", "nodecleanups", base::Error(StatusCode::kAborted, "conflict"));
  cluster_.client.LoseNextAnswer("patch", "nodecleanups",
                                 base::Error(StatusCode::kUnavailable, "no answer"));
  PutFence(kVolume, {FenceEntryOf("node-b", "web")});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Remembered().size() == 2; }));
  EXPECT_EQ(Remembered()[0].volume, "other");
  EXPECT_TRUE(WaitFree());
}

TEST_F(StaleUsesTest, TheCleanupIsWrittenBeforeTheFence) {
  Begin();
  PutBound("data");
  cluster_.client.TakeActions();
  PutFence(kVolume, {FenceEntryOf("node-b", "web")});
  ASSERT_TRUE(WaitFree());
  std::vector<std::string> names;
  for (const std::string& name : cluster_.client.ActionNames()) {
    if (name.find("nodecleanups") != std::string::npos ||
        name.find("volumefences") != std::string::npos) {
      names.push_back(name);
    }
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("create nodecleanups/node-b", "patch nodecleanups/node-b",
                                     "delete volumefences/pvc-uid-data"));
}

TEST_F(StaleUsesTest, WhatIsLeftOfAGoneNodeGoesWithTheVolume) {
  BeginWithUse();
  UnmapOn("node-b", kVolume);
  EndPod();
  EndNode();
  ASSERT_TRUE(WaitFree());
  ASSERT_EQ(Remembered().size(), 1U);
  // A node that never returns does not keep the volume from being deleted.
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", kVolume); }));
  // It is looked at when it changes; the scan may have been faster.
  if (const auto left = cluster_.Get<Cleanup>("", "node-b"); !left.name().empty()) {
    cluster_.Put(left);
  }
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Cleanup>("", "node-b"); }));
}

TEST_F(StaleUsesTest, TheScanFindsWhatTheWatchesDidNotTell) {
  options_.scan_interval = std::chrono::milliseconds(30);
  options_.retry_start = options_.retry_max = std::chrono::minutes(5);
  BeginWithUse();
  EndPod();
  EndNode();
  ASSERT_TRUE(cluster_.events.WaitFor("StaleAttachment pvc-uid-data"));
  UnmapOn("node-b", kVolume);
  EXPECT_TRUE(WaitFree());
}

}  // namespace
}  // namespace berth::controllers::blockoperator
