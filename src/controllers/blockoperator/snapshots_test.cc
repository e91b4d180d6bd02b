// Snapshots of claims' volumes, and claims that are restored from them.
#include "controllers/blockoperator/block_operator_fixture.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;

class SnapshotsTest : public BlockOperatorTest {
 protected:
  using Snapshot = api::BlockSnapshot;

  static Json MakeSnapshot(const std::string& claim = "data", const Json& more = nullptr) {
    return Merged(
        {{"apiVersion", "storage.berth.dev/v1alpha1"},
         {"kind", "BlockSnapshot"},
         {"metadata", {{"name", "monday"}, {"namespace", "default"}, {"uid", "uid-monday"}}},
         {"spec", {{"persistentVolumeClaimName", claim}}}},
        more);
  }
  // As the operator writes it before it calls the back end.
  static Json MakeBegun() {
    return MakeSnapshot("data", {{"metadata", {{"finalizers", {api::kSnapshotFinalizer}}}},
                                 {"status",
                                  {{"clusterName", "pool"},
                                   {"volumeName", "pvc-uid-data"},
                                   {"image", "pvc-uid-data"},
                                   {"fsType", "ext4"}}}});
  }
  static Json RestoredFromIt(const Json& more = nullptr) {
    return Merged(
        {{"spec",
          {{"dataSourceRef",
            {{"apiGroup", "storage.berth.dev"}, {"kind", "BlockSnapshot"}, {"name", "monday"}}}}}},
        more);
  }
  Snapshot Get() { return cluster_.Get<Snapshot>("default", "monday"); }
  bool WaitReady() {
    return cluster_.WaitUntil([&] { return Get().ready(); });
  }
  void Delete() { ASSERT_TRUE(kube::Delete(cluster_.client, Get()).ok()); }
  bool WaitGone() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Snapshot>("default", "monday"); });
  }
};

TEST_F(SnapshotsTest, AClaimsVolumeGetsASnapshotFromWhichAClaimIsRestored) {
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot(), "snap-uid-monday");
  EXPECT_EQ(Get().restore_size(), "1Gi");
  EXPECT_TRUE(Get().has_finalizer(api::kSnapshotFinalizer));
  EXPECT_EQ(store_->SizeOf("snap-uid-monday"), int64_t{1} << 30);
  EXPECT_TRUE(cluster_.events.WaitFor("Normal SnapshotCreated default/monday"));
  CreateClaim("restored", RestoredFromIt());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  EXPECT_EQ(store_->Count("create pvc-uid-restored 1073741824 of snap-uid-monday"), 1);
}

TEST_F(SnapshotsTest, WhereItMayBeIsWrittenBeforeItIsMade) {
  Snapshot seen;
  store_->while_creating = [&] { seen = Get(); };
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  EXPECT_TRUE(seen.has_finalizer(api::kSnapshotFinalizer));
  EXPECT_EQ(seen.cluster(), "pool");
  EXPECT_EQ(seen.image(), "pvc-uid-data");
  EXPECT_FALSE(seen.ready());
}

TEST_F(SnapshotsTest, OneThatAnEarlierOperatorBegunIsMade) {
  cluster_.Put(MakeBegun());
  PutBound("data");
  Begin();
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(store_->Count("snapshot snap-uid-monday of pvc-uid-data"), 1);
}

TEST_F(SnapshotsTest, ALostAnswerMakesNoSecondSnapshot) {
  store_->LoseNextAnswer("snapshot", base::Error(StatusCode::kUnavailable, "the line is cut"));
  store_->OfferSnapshots(block::SnapshotSupport::kOfAny);
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(store_->size(), 2U);
  EXPECT_EQ(Get().error(), "") << "the error of the first try is taken away";
  EXPECT_EQ(store_->Count("delete snap-uid-monday"), 0) << "it is as good as when it was made";
}

TEST_F(SnapshotsTest, ADeletedOneIsDeletedInTheStorageFirst) {
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  store_->SetOutage(base::Error(StatusCode::kUnavailable, "the pool is away"));
  Delete();
  ASSERT_TRUE(
      cluster_.events.WaitFor("SnapshotDeleteFailed default/monday: delete snapshot "
                              "'snap-uid-monday': the pool is away"));
  EXPECT_TRUE(cluster_.Has<Snapshot>("default", "monday"));
  store_->SetOutage(base::OkStatus());
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(store_->Has("snap-uid-monday"));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
}

TEST_F(SnapshotsTest, ADeletionDuringTheCallLeavesNothing) {
  bool deleted = false;
  store_->while_creating = [&] {
    if (!std::exchange(deleted, true)) Delete();
  };
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(store_->Has("snap-uid-monday"));
}

TEST_F(SnapshotsTest, OneThatWasNotBegunIsDeletedWithoutTheStorage) {
  Begin();
  cluster_.Put(MakeSnapshot("absent", {{"metadata", {{"finalizers", {api::kSnapshotFinalizer}}}}}));
  ASSERT_TRUE(cluster_.events.WaitFor("SnapshotFailed default/monday: claim 'absent' does not"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Get().error() == "claim 'absent' does not exist"; }));
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(store_->Count("delete snap-uid-monday"), 0);
}

TEST_F(SnapshotsTest, ItComesAsSoonAsTheClaimIsBound) {
  options_.retry_start = options_.retry_max = std::chrono::minutes(10);
  Begin();
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(cluster_.events.WaitFor("claim 'data' does not exist"));
  PutBound("data");
  EXPECT_TRUE(WaitReady());
}

TEST_F(SnapshotsTest, AVolumeThatIsInUseIsCopiedOnlyOnceNobodyHasIt) {
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  MapOn("node-a", "pvc-uid-data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(
      cluster_.events.WaitFor("SnapshotFailed default/monday: it is in use: pod "
                              "'default/web' on node 'node-a'"));
  EXPECT_EQ(store_->Count("snapshot snap-uid-monday of pvc-uid-data"), 0);
  UnmapOn("node-a", "pvc-uid-data");
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  EXPECT_TRUE(WaitReady());
}

// The copy may have half of what the pod wrote, so it is made again.
TEST_F(SnapshotsTest, AUseThatBeginsMeanwhileSpoilsTheCopy) {
  int copies = 0;
  store_->while_creating = [&] {
    if (++copies == 1) PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  };
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(cluster_.events.WaitFor("may use it"));
  EXPECT_FALSE(Get().ready());
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(store_->Count("snapshot snap-uid-monday of pvc-uid-data"), 2);
}

TEST_F(SnapshotsTest, ABackEndThatCanMakesItWhileThePodWrites) {
  store_->OfferSnapshots(block::SnapshotSupport::kOfAny);
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  MapOn("node-a", "pvc-uid-data");
  cluster_.Put(MakeSnapshot());
  EXPECT_TRUE(WaitReady());
}

TEST_F(SnapshotsTest, ABackEndThatMakesNoneSaysSo) {
  store_->OfferSnapshots(block::SnapshotSupport::kNone);
  Begin();
  PutBound("data");
  PutFence("pvc-uid-data", {FenceEntryOf("node-a", "web")});
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(
      cluster_.events.WaitFor("SnapshotFailed default/monday: this back end makes no snapshots"));
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return Get().error() == "this back end makes no snapshots"; }));
  EXPECT_FALSE(Get().has_finalizer(api::kSnapshotFinalizer));
  CreateClaim("restored", RestoredFromIt());
  EXPECT_TRUE(cluster_.events.WaitFor(
      "restore BlockSnapshot 'monday': it is not made: this back end makes no snapshots"));
  cluster_.client.Remove(Fence::kInfo, "", "pvc-uid-data");
  Release("data");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  Delete();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotsTest, AFullPoolIsToldAndTriedAgain) {
  store_->Refuse("snapshot", base::Error(StatusCode::kResourceExhausted, "the pool is full"));
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get().error() == "the pool is full"; }));
  store_->Refuse("snapshot", base::OkStatus());
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().error(), "");
}

TEST_F(SnapshotsTest, WhatTakesLongSaysHowFarItIs) {
  options_.progress_patience = std::chrono::milliseconds(0);
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal ImageCopying default/monday: image 'pvc-uid-data' is being copied to "
      "'snap-uid-monday': 61 % is done"));
  ASSERT_TRUE(WaitReady());
  Delete();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal SnapshotDeleting default/monday: snapshot 'snap-uid-monday' is being deleted: 43 % "
      "is done"));
}

TEST_F(SnapshotsTest, AVolumeOfAnotherDriverIsRefused) {
  Begin();
  cluster_.Put(MakeVolume("other", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("other")));
  cluster_.Put(MakeSnapshot());
  EXPECT_TRUE(cluster_.events.WaitFor("a CSI driver makes a VolumeSnapshot of its volumes"));
  EXPECT_FALSE(Get().has_finalizer(api::kSnapshotFinalizer));
}

TEST_F(SnapshotsTest, TheVolumeOfADeletedClaimStaysUntilItsSnapshotIsMade) {
  store_->Refuse("snapshot", base::Error(StatusCode::kResourceExhausted, "the pool is full"));
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().error().empty(); }));
  Release("data");
  ASSERT_TRUE(cluster_.events.WaitFor(
      "VolumeFailedDelete pvc-uid-data: BlockSnapshot 'default/monday' is to be made of it: the "
      "pool is full"));
  store_->Refuse("snapshot", base::OkStatus());
  ASSERT_TRUE(WaitReady());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_TRUE(store_->Has("snap-uid-monday"));
  CreateClaim("restored", RestoredFromIt());
  EXPECT_TRUE(WaitVolume("pvc-uid-restored"));
}

TEST_F(SnapshotsTest, OneWhoseVolumeIsGoneSaysSo) {
  cluster_.Put(MakeBegun());
  Begin();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "PersistentVolume 'pvc-uid-data' with image 'pvc-uid-data' does not exist"));
  Delete();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotsTest, AClaimWaitsForItsSnapshot) {
  options_.retry_start = options_.retry_max = std::chrono::minutes(10);
  Begin();
  CreateClaim("restored", RestoredFromIt());
  ASSERT_TRUE(cluster_.events.WaitFor("restore BlockSnapshot 'monday': it does not exist"));
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  EXPECT_TRUE(WaitVolume("pvc-uid-restored"));
}

TEST_F(SnapshotsTest, AClaimThatDoesNotFitIsRefused) {
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  CreateClaim("small",
              RestoredFromIt({{"spec", {{"resources", {{"requests", {{"storage", "512Mi"}}}}}}}}));
  EXPECT_TRUE(cluster_.events.WaitFor("the claim has to ask for at least its size, 1Gi"));
  cluster_.Put(MakeClass("xfs", {{"provisioner", "block.berth.dev"},
                                 {"parameters", {{"cluster", "pool"}, {"fsType", "xfs"}}}}));
  CreateClaim("other", RestoredFromIt({{"spec", {{"storageClassName", "xfs"}}}}));
  EXPECT_TRUE(cluster_.events.WaitFor("its file system is ext4, and that of the class is xfs"));
  EXPECT_FALSE(store_->Has("pvc-uid-small"));
  EXPECT_FALSE(store_->Has("pvc-uid-other"));
}

TEST_F(SnapshotsTest, ASnapshotFromWhichAClaimIsBeingRestoredStays) {
  Begin();
  PutBound("data");
  cluster_.Put(MakeSnapshot());
  ASSERT_TRUE(WaitReady());
  bool deleted = false;
  store_->while_creating = [&] {
    if (std::exchange(deleted, true)) return;
    Delete();
    EXPECT_TRUE(
        cluster_.events.WaitFor("claim 'default/restored' is being restored from snapshot"));
  };
  CreateClaim("restored", RestoredFromIt());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  Claim claim = GetClaim("restored");
  claim.Set({"spec", "volumeName"}, "pvc-uid-restored");
  cluster_.Put(claim);
  EXPECT_TRUE(WaitGone());
  EXPECT_FALSE(store_->Has("snap-uid-monday"));
  EXPECT_TRUE(store_->Has("pvc-uid-restored"));
}

TEST_F(SnapshotsTest, OneOfAClusterThatIsGoneSaysWhatToDo) {
  Start();
  cluster_.Put(MakeBegun());
  Delete();
  EXPECT_TRUE(cluster_.events.WaitFor("StorageCluster 'pool' does not exist"));
  EXPECT_TRUE(cluster_.events.WaitFor("remove the finalizer storage.berth.dev/snapshot from"));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
