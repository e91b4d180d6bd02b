// Why a snapshot does not come to be, or does not go.
#include "cli/explain/chain.h"
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::Json;
using base::StatusCode;

// Snapshot "monday" of bound claim "data", with a class, a content that is not ready, and its
// driver there: each test breaks something.
class SnapshotRulesTest : public RulesCase {
 protected:
  SnapshotRulesTest() {
    state_.subject = "volumesnapshot/monday";
    state_.snapshot = api::VolumeSnapshot(
        {{"kind", "VolumeSnapshot"},
         {"metadata", {{"name", "monday"}, {"namespace", "default"}, {"uid", "uid-1"}}},
         {"spec",
          {{"volumeSnapshotClassName", "snap"},
           {"source", {{"persistentVolumeClaimName", "data"}}}}}});
    state_.snapshot_class = api::VolumeSnapshotClass(
        {{"metadata", {{"name", "snap"}}}, {"driver", kDriver}, {"deletionPolicy", "Delete"}});
    state_.snapshot_classes = {*state_.snapshot_class};
    state_.content = api::VolumeSnapshotContent(
        {{"metadata", {{"name", "snapcontent-uid-1"}}},
         {"spec",
          {{"driver", kDriver},
           {"deletionPolicy", "Delete"},
           {"source", {{"volumeHandle", "vol-1"}}},
           {"volumeSnapshotRef",
            {{"namespace", "default"}, {"name", "monday"}, {"uid", "uid-1"}}}}}});
    state_.claim_key = "default/data";
    state_.claim = api::PersistentVolumeClaim(
        {{"metadata", {{"name", "data"}, {"namespace", "default"}}},
         {"spec", {{"storageClassName", "fast"}, {"volumeName", "pv-1"}}},
         {"status", {{"phase", "Bound"}}}});
    state_.class_name = "fast";
    state_.storage_class =
        api::StorageClass({{"metadata", {{"name", "fast"}}}, {"provisioner", kDriver}});
    state_.volume = api::PersistentVolume(
        {{"metadata", {{"name", "pv-1"}}},
         {"spec", {{"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}}}}},
         {"status", {{"phase", "Bound"}}}});
    state_.driver = kDriver;
    state_.handle = "vol-1";
    state_.csi_nodes = {
        api::CsiNode({{"metadata", {{"name", "node-a"}}},
                      {"spec", {{"drivers", {{{"name", kDriver}, {"nodeID", "node-a"}}}}}}})};
    Update();
  }

  // The subject is what the test made of it.
  void Update() { state_.object = *state_.snapshot; }
  void Ready() {
    state_.content->Set({"status"}, {{"readyToUse", true}, {"snapshotHandle", "snap-1"}});
    state_.snapshot->Set({"status"}, {{"readyToUse", true},
                                      {"creationTime", "2026-01-01T00:00:00Z"},
                                      {"boundVolumeSnapshotContentName", "snapcontent-uid-1"}});
    Update();
  }
  void Deleted(api::Object& object) {
    object.Set({"metadata", "deletionTimestamp"}, "2026-01-01T00:59:00Z");
  }
};

TEST_F(SnapshotRulesTest, NothingIsWrongWithOneThatIsReady) {
  Ready();
  EXPECT_EQ(First().id, "");
  EXPECT_EQ(ExplainStates({state_}).verdict(), "ok");
  const std::vector<Step> chain = BuildChain(state_, {});
  ASSERT_EQ(chain.size(), 3U);  // claim, volume, snapshot
  EXPECT_EQ(chain.back().link, Link::kSnapshot);
  EXPECT_EQ(chain.back().mark, Mark::kOk);
}

TEST_F(SnapshotRulesTest, AClassThatDoesNotExistIsNamedWithThoseThatDo) {
  state_.content.reset();
  state_.snapshot_class.reset();
  state_.snapshot->Set({"spec", "volumeSnapshotClassName"}, "gone");
  state_.snapshot->Set({"status", "error", "message"}, "Failed to get snapshot class");
  Update();
  EXPECT_EQ(Ids(), std::vector<std::string>{"no-snapshot-class"});
  EXPECT_EQ(First().summary, "VolumeSnapshotClass 'gone' does not exist");
  EXPECT_TRUE(Proves(First(), "that exist: snap"));
}

TEST_F(SnapshotRulesTest, NoClassAndNotOneDefaultOfTheDriver) {
  state_.content.reset();
  state_.snapshot_class.reset();
  state_.snapshot->mutable_json()["spec"].erase("volumeSnapshotClassName");
  Update();
  EXPECT_EQ(First().id, "no-snapshot-class");
  EXPECT_NE(First().summary.find("has no default one"), std::string::npos);

  api::VolumeSnapshotClass marked = state_.snapshot_classes[0];
  marked.set_annotation("snapshot.storage.kubernetes.io/is-default-class", "true");
  state_.snapshot_classes = {marked};
  EXPECT_EQ(First().id, "waits-for-role");
  state_.snapshot_classes = {marked, marked};
  EXPECT_NE(First().summary.find("more than one"), std::string::npos);
}

TEST_F(SnapshotRulesTest, AClaimWithoutAVolumeIsExplainedItself) {
  state_.content.reset();
  state_.volume.reset();
  state_.claim->Set({"status", "phase"}, "Pending");
  state_.claim->Set({"spec", "volumeName"}, "");
  Call("provision default/data", "CreateVolume", StatusCode::kInternal, "no such pool");
  EXPECT_EQ(Ids(), (std::vector<std::string>{"driver-error", "source-not-bound"}));
  EXPECT_TRUE(Proves(First(), "no such pool"));
}

TEST_F(SnapshotRulesTest, AClaimThatDoesNotExist) {
  state_.content.reset();
  state_.claim.reset();
  state_.volume.reset();
  EXPECT_EQ(First().id, "claim-missing");
}

TEST_F(SnapshotRulesTest, AContentThatDoesNotExist) {
  state_.content.reset();
  state_.snapshot->Set({"spec", "source"}, {{"volumeSnapshotContentName", "by-hand"}});
  state_.claim.reset();
  state_.claim_key.clear();
  state_.volume.reset();
  Update();
  EXPECT_EQ(First().id, "content-missing");
  EXPECT_EQ(First().summary, "VolumeSnapshotContent 'by-hand' does not exist");
}

TEST_F(SnapshotRulesTest, ATakenSnapshotThatLostItsContentIsNotToBeTakenAgain) {
  Ready();
  state_.content.reset();
  state_.snapshot->Set({"status", "readyToUse"}, false);
  Update();
  EXPECT_EQ(First().id, "content-missing");
  EXPECT_NE(First().step.find("newer data"), std::string::npos);
}

TEST_F(SnapshotRulesTest, ADriverThatIsNotThere) {
  state_.csi_nodes.clear();
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_TRUE(Proves(First(), "no node's CSINode lists"));
}

TEST_F(SnapshotRulesTest, TheDriversErrorByItsCallAndWithoutRecordsByTheContent) {
  Call("snapshot snapcontent-uid-1", "CreateSnapshot", StatusCode::kInternal, "pool is broken");
  state_.content->Set({"status", "error", "message"}, "Failed to create snapshot: pool is broken");
  EXPECT_EQ(Ids(), std::vector<std::string>{"driver-error"});
  EXPECT_EQ(First().link, Link::kSnapshot);
  EXPECT_TRUE(Proves(First(), "CreateSnapshot"));
  EXPECT_TRUE(Proves(First(), "pool is broken"));
  state_.logs.clear();
  EXPECT_EQ(First().id, "driver-error");
  EXPECT_EQ(First().summary, "Failed to create snapshot: pool is broken");
}

TEST_F(SnapshotRulesTest, AnUploadIsWaitedFor) {
  state_.content->Set({"status"}, {{"snapshotHandle", "snap-1"}, {"readyToUse", false}});
  EXPECT_EQ(First().id, "snapshot-uploading");
  EXPECT_EQ(ExplainStates({state_}).verdict(), "waiting");
}

TEST_F(SnapshotRulesTest, WhatTheControllerRefusesIsToldInItsWords) {
  state_.content.reset();
  state_.snapshot->Set({"status", "error", "message"}, "it is of another driver");
  Update();
  EXPECT_EQ(First().id, "snapshot-fails");
  EXPECT_EQ(First().summary, "it is of another driver");
}

TEST_F(SnapshotRulesTest, ADeletionWaitsForAVolumeThatIsBeingRestored) {
  Ready();
  Deleted(*state_.snapshot);
  state_.snapshot->add_finalizer(
      "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection");
  state_.restoring = {"copy"};
  Update();
  EXPECT_EQ(First().id, "being-restored");
  EXPECT_TRUE(Proves(First(), "copy"));
}

TEST_F(SnapshotRulesTest, AContentThatIsDeletedNamesTheCallThatHoldsIt) {
  Ready();
  Deleted(*state_.snapshot);
  Deleted(*state_.content);
  state_.snapshot->add_finalizer("snapshot.storage.kubernetes.io/volumesnapshot-bound-protection");
  Update();
  EXPECT_EQ(First().id, "finalizer-left");
  EXPECT_TRUE(Proves(First(), "VolumeSnapshotContent 'snapcontent-uid-1' to be gone"));
  Call("snapshot snapcontent-uid-1", "DeleteSnapshot", StatusCode::kFailedPrecondition, "in use");
  EXPECT_EQ(First().id, "driver-error");
  EXPECT_EQ(First().link, Link::kDeletion);
  EXPECT_TRUE(Proves(First(), "in use"));
}

TEST_F(SnapshotRulesTest, AContentWhoseSnapshotIsAnothersTooIsAPersonsMatter) {
  Ready();
  Deleted(*state_.content);
  state_.content->Set({"status", "error", "message"},
                      "Failed to delete snapshot: snapshot 'snap-1' is VolumeSnapshotContent "
                      "'by-hand', too, and is not deleted with this one");
  EXPECT_EQ(First().id, "snapshot-shared");
  EXPECT_EQ(First().owner, Owner::kPerson);
  EXPECT_NE(First().summary.find("'by-hand'"), std::string::npos);
}

TEST_F(SnapshotRulesTest, AContentsFinalizerSaysWhatItWaitsFor) {
  Deleted(*state_.content);
  state_.content->add_finalizer(
      "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection");
  state_.snapshot.reset();
  state_.subject = "volumesnapshotcontent/snapcontent-uid-1";
  state_.object = *state_.content;
  EXPECT_TRUE(Proves(First(), "VolumeSnapshot 'default/monday', which is bound"));
  state_.content->set_annotation("snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
                                 "yes");
  EXPECT_TRUE(Proves(First(), "DeleteSnapshot"));
  state_.content->set_annotation("snapshot.storage.kubernetes.io/volumesnapshot-being-created",
                                 "yes");
  EXPECT_TRUE(Proves(First(), "CreateSnapshot whose outcome is not known"));
}

}  // namespace
}  // namespace berth::cli::explain
