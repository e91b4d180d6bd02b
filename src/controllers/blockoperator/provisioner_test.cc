#include <algorithm>
#include <atomic>

#include "controllers/blockoperator/block_operator_fixture.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;

TEST_F(BlockOperatorTest, AClaimGetsAnImageAndAPersistentVolume) {
  Begin();
  CreateClaim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto volume = cluster_.Get<Volume>("", "pvc-uid-data");
  EXPECT_EQ(volume.annotation(kProvisionedBy), "block.berth.dev");
  EXPECT_EQ(volume.claim_uid(), "uid-data");
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), int64_t{1} << 30);
  EXPECT_TRUE(GetClaim("data").has_finalizer(kProvisioningFinalizer)) << "the binder takes it off";
  EXPECT_TRUE(cluster_.events.WaitFor("Normal ProvisioningSucceeded default/data"));
}

TEST_F(BlockOperatorTest, TheFinalizerIsWrittenBeforeTheImageIsMade) {
  bool held = false;
  store_->while_creating = [&] {
    const Claim claim = GetClaim("data");
    held = claim.has_finalizer(kProvisioningFinalizer) && claim.annotation(kBegunIn) == "pool";
  };
  Begin();
  CreateClaim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(held);
}

TEST_F(BlockOperatorTest, ABinderThatKnowsNoneOfItLeavesTheFinalizerToUs) {
  Begin();
  CreateClaim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  Claim claim = GetClaim("data");
  claim.Set({"spec", "volumeName"}, "pvc-uid-data");
  cluster_.Put(claim);
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    const Claim now = GetClaim("data");
    return !now.has_finalizer(kProvisioningFinalizer) && !now.has_annotation(kBegunIn);
  }));
}

TEST_F(BlockOperatorTest, AnAnswerThatIsLostMakesNoSecondImage) {
  store_->LoseNextAnswer("create", base::Error(StatusCode::kUnavailable, "no answer"));
  Begin();
  cluster_.client.LoseNextAnswer("create", "persistentvolumes",
                                 base::Error(StatusCode::kUnavailable, "no answer"));
  CreateClaim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(cluster_.events.WaitFor("ProvisioningFailed default/data: "));
  EXPECT_TRUE(cluster_.events.WaitFor("no answer"));
  EXPECT_EQ(store_->size(), 1U);
}

TEST_F(BlockOperatorTest, AClaimThatIsDeletedBeforeItsVolumeExistsLeavesNoImage) {
  store_->LoseNextAnswer("create", base::Error(StatusCode::kUnavailable, "no answer"));
  options_.retry_start = options_.retry_max = std::chrono::seconds(30);
  Begin();
  // The provisioner tries all claims again at the cluster's first "Ready". This handler is called
  // after the provisioner's own, because it was added later.
  const auto was_ready = std::make_shared<std::atomic<bool>>(false);
  cluster_.informers.Of<api::StorageCluster>().AddHandler([was_ready](const auto& change) {
    if (change.after != nullptr && change.after->String({"status", "phase"}) == "Ready") {
      *was_ready = true;
    }
  });
  ASSERT_TRUE(cluster_.events.WaitFor("BackendReady"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return was_ready->load(); }));
  CreateClaim("data", {{"metadata", {{"finalizers", Json::array()}}}});
  ASSERT_TRUE(cluster_.events.WaitFor("ProvisioningFailed default/data"));
  ASSERT_TRUE(store_->Has("pvc-uid-data"));
  ASSERT_TRUE(kube::Delete(cluster_.client, GetClaim("data")).ok());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
  EXPECT_FALSE(store_->Has("pvc-uid-data"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
}

TEST_F(BlockOperatorTest, AClaimOfAStorageThatNeverWorkedIsDeletedAtOnce) {
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "no monitor answers"));
  Begin();
  CreateClaim("data", {{"metadata", {{"finalizers", Json::array()}}}});
  ASSERT_TRUE(cluster_.events.WaitFor("ProvisioningFailed default/data"));
  EXPECT_TRUE(cluster_.events.WaitFor("StorageCluster 'pool': no monitor answers"));
  EXPECT_FALSE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
  ASSERT_TRUE(kube::Delete(cluster_.client, GetClaim("data")).ok());
  EXPECT_FALSE(cluster_.Has<Claim>("default", "data"));

  CreateClaim("later");
  store_->SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitVolume("pvc-uid-later"));
}

TEST_F(BlockOperatorTest, AnImageThatAnObjectNamesIsNotDeletedWithTheClaim) {
  Begin();
  CreateClaim("data", {{"metadata", {{"finalizers", Json::array()}}}});
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  ASSERT_TRUE(kube::Delete(cluster_.client, GetClaim("data")).ok());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", "data"); }));
  EXPECT_TRUE(store_->Has("pvc-uid-data")) << "it goes with its PersistentVolume";
}

TEST_F(BlockOperatorTest, SaysThatTheClusterIsMissingAndGoesOnWhenItIsThere) {
  cluster_.Put(MakeClass(
      "fast", {{"provisioner", "block.berth.dev"}, {"parameters", {{"cluster", "pool"}}}}));
  options_.retry_start = options_.retry_max = std::chrono::seconds(30);
  Start();
  CreateClaim("data");
  ASSERT_TRUE(cluster_.events.WaitFor("StorageCluster 'pool' does not exist: create it"));
  PutCluster();
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, WaitsForItsFirstConsumer) {
  Begin({{"volumeBindingMode", "WaitForFirstConsumer"}});
  CreateClaim("data");
  CreateClaim("other", {{"metadata", {{"annotations", {{std::string(kSelectedNode), "node-a"}}}}}});
  ASSERT_TRUE(WaitVolume("pvc-uid-other"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
  Claim claim = GetClaim("data");
  claim.set_annotation(kSelectedNode, "node-a");
  cluster_.Put(claim);
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, ANodeThatDoesNotUseTheClusterIsGivenBackToTheScheduler) {
  Begin({{"volumeBindingMode", "WaitForFirstConsumer"},
         {"allowedTopologies",
          {{{"matchLabelExpressions", {{{"key", "zone"}, {"values", {"a"}}}}}}}}});
  CreateClaim("data", {{"metadata", {{"annotations", {{std::string(kSelectedNode), "node-a"}}}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_TRUE(cluster_.events.WaitFor("node 'node-a', which was selected, is not one"));
  EXPECT_FALSE(store_->Has("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, ACopyIsMadeOfAClaimThatNobodyUses) {
  Begin();
  PutBound("data");
  CreateClaim("copy",
              {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "data"}}}}}});
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_EQ(store_->Count("create pvc-uid-copy 1073741824 of pvc-uid-data"), 1);
}

TEST_F(BlockOperatorTest, ACopyThatTakesLongSaysHowFarItIs) {
  options_.progress_patience = std::chrono::milliseconds(0);
  Begin();
  PutBound("data");
  CreateClaim("copy",
              {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "data"}}}}}});
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal ImageCopying default/copy: image 'pvc-uid-copy' is being copied from image "
      "'pvc-uid-data': 61 % is done"));
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
}

TEST_F(BlockOperatorTest, ACopyOfWhatIsInUseWaits) {
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  CreateClaim("copy",
              {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "data"}}}}}});
  ASSERT_TRUE(cluster_.events.WaitFor("pod 'default/web' on node 'node-a' may use it"));
  EXPECT_FALSE(store_->Has("pvc-uid-copy"));
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
}

TEST_F(BlockOperatorTest, ACopyUnderWhichSomebodyWroteIsThrownAway) {
  int copies = 0;
  store_->while_creating = [&] {
    if (++copies > 1) return;
    PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  };
  Begin();
  PutBound("data");
  CreateClaim("copy",
              {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "data"}}}}}});
  ASSERT_TRUE(cluster_.events.WaitFor("may use it"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-copy"));
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_EQ(store_->Count("create pvc-uid-copy 1073741824 of pvc-uid-data"), 2);
  EXPECT_GE(store_->Count("delete pvc-uid-copy"), 2);
}

// A copy takes as long as its source is large, so one tenant's could hold all workers.
TEST_F(BlockOperatorTest, CopiesOfOneNamespaceLeaveWorkersToTheOthers) {
  std::atomic<int> copies = 0;
  std::atomic<bool> end = false;
  store_->while_creating = [&] {
    ++copies;
    cluster_.WaitUntil([&] { return end.load(); });
    --copies;
  };
  Begin();
  PutBound("data");
  for (int i = 0; i < 12; ++i) {
    CreateClaim(
        fmt::format("copy-{}", i),
        {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "data"}}}}}});
  }
  EXPECT_TRUE(cluster_.events.WaitFor("4 copies are under way in namespace 'default'"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return copies == 4; }));
  CreateClaim("other", {{"metadata", {{"namespace", "tenant"}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return copies == 5; }));
  end = true;
  EXPECT_TRUE(WaitVolume("pvc-uid-other"));
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(WaitVolume(fmt::format("pvc-uid-copy-{}", i)));
}

TEST_F(BlockOperatorTest, AVolumeSnapshotIsRefusedWithWhatToDo) {
  Begin();
  CreateClaim(
      "data",
      {{"spec",
        {{"dataSource",
          {{"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "s"}}}}}});
  EXPECT_TRUE(cluster_.events.WaitFor(
      "name a BlockSnapshot of group storage.berth.dev in spec.dataSourceRef"));
}

// It must not become a copy of a claim that has this name in its own namespace.
TEST_F(BlockOperatorTest, ASourceInAnotherNamespaceIsRefused) {
  Begin();
  PutBound("data");
  CreateClaim(
      "copy",
      {{"spec",
        {{"dataSourceRef",
          {{"kind", "PersistentVolumeClaim"}, {"name", "data"}, {"namespace", "other"}}}}}});
  EXPECT_TRUE(cluster_.events.WaitFor("copies only within a namespace"));
  EXPECT_FALSE(store_->Has("pvc-uid-copy"));
}

TEST_F(BlockOperatorTest, AReleasedVolumeGoesWithItsImage) {
  Begin();
  PutBound("data");
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_FALSE(store_->Has("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, AReleasedVolumeWhoseImageIsMissingGoes) {
  Begin();
  PutBound("data");
  store_->LoseFile("pvc-uid-data");
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_EQ(store_->Count("delete pvc-uid-data"), 1) << "its record goes";
}

TEST_F(BlockOperatorTest, AReleasedVolumeThatIsToBeRetainedStays) {
  Begin();
  PutBound("data", {{"spec", {{"persistentVolumeReclaimPolicy", "Retain"}}}});
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return !cluster_.Get<Volume>("", "pvc-uid-data").has_finalizer(kImageFinalizer); }));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, NoImageIsDeletedThatAFenceNames) {
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  Release("data");
  ASSERT_TRUE(
      cluster_.events.WaitFor("Warning VolumeFailedDelete pvc-uid-data: pod 'default/web'"));
  EXPECT_EQ(store_->Count("delete pvc-uid-data"), 0);
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(BlockOperatorTest, ADeletionThatTakesLongSaysHowFarItIs) {
  options_.progress_patience = std::chrono::milliseconds(0);
  Begin();
  PutBound("data");
  Release("data");
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal VolumeDeleting pvc-uid-data: image 'pvc-uid-data' is being deleted: 43 % is done"));
}

TEST_F(BlockOperatorTest, ADeletionBeforeTheNodeHasUnmountedIsNoFailure) {
  options_.unmount_patience = std::chrono::minutes(10);
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  MapOn("node-a", "pvc-uid-data");
  Release("data");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.allowed.used().contains("get volumefences.storage.berth.dev"); }));
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return store_->Count("haslock pvc-uid-data") > 2; }));
  EXPECT_EQ(store_->Count("delete pvc-uid-data"), 0);
  UnmapOn("node-a", "pvc-uid-data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_EQ(cluster_.events.Count("VolumeFailedDelete"), 0);
}

// A restored cluster has a volume of the same name in one change.
TEST_F(BlockOperatorTest, ANewVolumeOfTheSameNameIsNotHeldSinceTheTimeOfTheOldOne) {
  options_.unmount_patience = std::chrono::seconds(2);
  Begin();
  PutBound("data");
  MapOn("node-a", "pvc-uid-data");
  Release("data");
  ASSERT_TRUE(cluster_.events.WaitFor("Warning VolumeFailedDelete pvc-uid-data"));
  base::Json anew = cluster_.Get<Volume>("", "pvc-uid-data").json();
  anew["metadata"]["uid"] = "uid-of-the-new";
  cluster_.Put(anew);
  const auto look = [&](int times) {
    const int before = store_->Count("haslock pvc-uid-data");
    return cluster_.WaitUntil(
        [&] { return store_->Count("haslock pvc-uid-data") >= before + times; });
  };
  ASSERT_TRUE(look(2));  // one look may still be of the old volume
  const int failures = cluster_.events.Count("VolumeFailedDelete");
  ASSERT_TRUE(look(5));
  EXPECT_EQ(cluster_.events.Count("VolumeFailedDelete"), failures);
  UnmapOn("node-a", "pvc-uid-data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(BlockOperatorTest, NoImageIsDeletedThatANodeHasMapped) {
  Begin();
  PutBound("data");
  MapOn("node-a", "pvc-uid-data");
  Release("data");
  ASSERT_TRUE(cluster_.events.WaitFor("a node still has image 'pvc-uid-data' mapped"));
  EXPECT_EQ(store_->Count("delete pvc-uid-data"), 0);
  UnmapOn("node-a", "pvc-uid-data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(BlockOperatorTest, NoImageIsDeletedThatANodeHasStillToTakeOff) {
  Begin();
  PutBound("data");
  Cleanup cleanup;
  cleanup.Set({"apiVersion"}, "storage.berth.dev/v1alpha1");
  cleanup.Set({"kind"}, "NodeCleanup");
  cleanup.set_name("node-a");
  cleanup.set_entries({{.volume = "pvc-uid-data", .attachment = FenceEntryOf("node-a", "web")}});
  cluster_.Put(cleanup);
  Release("data");
  ASSERT_TRUE(cluster_.events.WaitFor("node 'node-a' still has to take it off"));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
  cluster_.client.Remove(Cleanup::kInfo, "", "node-a");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(BlockOperatorTest, NothingIsDeletedWhereTheApiDoesNotServeFences) {
  Begin();
  PutBound("data");
  cluster_.Stop();
  FakeCluster other;
  other.client.Serve(api::kinds::kStorageCluster);
  other.client.Serve(api::kinds::kNodeCleanup);
  other.client.StopServing(api::kinds::kVolumeFence);
  other.client.Add(cluster_.Get<Cluster>("", "pool").json());
  Json volume = cluster_.Get<Volume>("", "pvc-uid-data").json();
  volume["status"]["phase"] = "Released";
  other.client.Add(volume);
  other.Add<BlockOperator>(options_);
  other.Start();
  ASSERT_TRUE(other.events.WaitFor("VolumeFailedDelete pvc-uid-data"));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
  other.Stop();
}

TEST_F(BlockOperatorTest, AnImageThatIsAnotherVolumeTooStays) {
  Begin();
  PutBound("data");
  Json other = cluster_.Get<Volume>("", "pvc-uid-data").json();
  other["metadata"] = {{"name", "by-hand"}};
  other["spec"].erase("claimRef");
  other["status"]["phase"] = "Available";
  cluster_.Put(other);
  Release("data");
  ASSERT_TRUE(cluster_.events.WaitFor("is PersistentVolume 'by-hand', too"));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
}

TEST_F(BlockOperatorTest, AVolumeOfAClusterThatIsGoneSaysWhatToDo) {
  Start();
  PutBound("data");
  Release("data");
  EXPECT_TRUE(cluster_.events.WaitFor("StorageCluster 'pool' is gone"));
  EXPECT_TRUE(cluster_.events.WaitFor("take the finalizer storage.berth.dev/image off"));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
