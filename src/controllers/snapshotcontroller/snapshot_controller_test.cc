#include "controllers/snapshotcontroller/snapshot_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {
namespace {

[[maybe_unused]] const auto* const kRights =
    CheckRightsOf("snapshot-controller", "csi/snapshot-controller/rbac.yaml",
                  {"get nodes", "get volumesnapshots.snapshot.storage.k8s.io",
                   "update volumesnapshots.snapshot.storage.k8s.io",
                   "update volumesnapshots/status.snapshot.storage.k8s.io",
                   "update volumegroupsnapshots.groupsnapshot.storage.k8s.io",
                   "update volumegroupsnapshots/status.groupsnapshot.storage.k8s.io",
                   "patch volumegroupsnapshotcontents/status.groupsnapshot.storage.k8s.io"});

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// -- of a claim

TEST_F(SnapshotControllerTest, HoldsSnapshotAndClaimMakesTheContentAndBinds) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_THAT(Get().finalizers(),
              UnorderedElementsAre(kSnapshotSourceProtection, kSnapshotBoundProtection));
  EXPECT_TRUE(GetClaim().has_finalizer(kClaimSourceProtection));
  const Content content = GetContent();
  EXPECT_EQ(content.driver(), "fake.csi.example.com");
  EXPECT_EQ(content.source_volume_handle(), "handle-pv-1");
  EXPECT_EQ(content.deletion_policy(), "Delete");
  EXPECT_EQ(content.class_name(), "snap");
  EXPECT_EQ(content.source_volume_mode(), "Filesystem");
  EXPECT_EQ(content.snapshot_key(), "default/monday");
  EXPECT_EQ(content.snapshot_uid(), "uid-monday");
  EXPECT_THAT(content.finalizers(), ElementsAre(kContentProtection));
  EXPECT_FALSE(Get().ready());
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("patch volumesnapshots/default/monday",
                          "update persistentvolumeclaims/default/data",
                          "create volumesnapshotcontents/snapcontent-uid-monday",
                          "patch volumesnapshots/default/monday/status"));
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal CreatingSnapshot default/monday: Waiting for a snapshot default/monday to be "
      "created by the CSI driver."));
}

TEST_F(SnapshotControllerTest, CopiesWhatTheSnapshotterSaysAndLetsTheClaimGo) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().content_name(), kContent);
  EXPECT_EQ(Get().restore_size(), "1Gi");
  EXPECT_EQ(Get().creation_time(), "2026-01-01T00:00:01Z");
  EXPECT_TRUE(WaitClaimFree());
  EXPECT_TRUE(GetClaim().has_finalizer("kubernetes.io/pvc-protection"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal SnapshotCreated"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal SnapshotReady"));
}

TEST_F(SnapshotControllerTest, TheDriversErrorIsTheSnapshotsUntilItIsReady) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Write(GetContent(), {{"status", {{"error", {{"message", "no space"}}}, {"readyToUse", false}}}},
        "status");
  ASSERT_TRUE(WaitError("no space"));
  EXPECT_TRUE(GetClaim().has_finalizer(kClaimSourceProtection));
  Json ready = ReadyContent("snap-1");
  ready["status"]["error"] = nullptr;
  Write(GetContent(), ready, "status");
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().error(), "");
}

TEST_F(SnapshotControllerTest, TheClaimStaysUntilTheLastSnapshotOfItIsTaken) {
  Begin();
  Add();
  cluster_.Put(MakeSnapshot("tuesday"));
  ASSERT_TRUE(WaitBound());
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Has<Content>("", "snapcontent-uid-tuesday"); }));
  Taken();
  ASSERT_TRUE(WaitReady());
  EXPECT_TRUE(GetClaim().has_finalizer(kClaimSourceProtection));
  Taken("snapcontent-uid-tuesday");
  EXPECT_TRUE(WaitClaimFree());
}

// Its role grants no patch on claims: a first try with one is a refusal in the server's audit log.
TEST_F(SnapshotControllerTest, ClaimsAreUpdatedAndNeverPatched) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_THAT(cluster_.client.ActionNames(),
              AllOf(Contains("update persistentvolumeclaims/default/data"),
                    Not(Contains("patch persistentvolumeclaims/default/data"))));
}

TEST_F(SnapshotControllerTest, ALostAnswerMakesNoSecondContent) {
  Begin();
  cluster_.client.LoseNextAnswer("create", "volumesnapshotcontents",
                                 base::Error(StatusCode::kAborted, "lost"));
  cluster_.client.FailNext("patch", "volumesnapshots/status",
                           base::Error(StatusCode::kAborted, "conflict"));
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(cluster_.client.PeekAll(Content::kInfo).size(), 1U);
}

// -- classes

TEST_F(SnapshotControllerTest, TheDefaultClassOfTheVolumesDriverIsWrittenDown) {
  const Json is_default = {{"metadata", {{"annotations", {{kDefaultSnapshotClass, "true"}}}}}};
  Json other = is_default;
  other["driver"] = "other.example.com";
  cluster_.Put(MakeSnapshotClass("others", other));
  cluster_.Put(MakeSnapshotClass("best", is_default));
  Begin();
  Add({{"spec", {{"volumeSnapshotClassName", nullptr}}}});
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(Get().class_name(), "best");
  EXPECT_EQ(GetContent().class_name(), "best");
}

TEST_F(SnapshotControllerTest, NoOneDefaultClassIsToldAndAwaited) {
  const Json is_default = {{"metadata", {{"annotations", {{kDefaultSnapshotClass, "true"}}}}}};
  Begin(Slow());
  Add({{"spec", {{"volumeSnapshotClassName", nullptr}}}});
  ASSERT_TRUE(WaitError("cannot find default snapshot class"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SetDefaultSnapshotClassFailed"));
  cluster_.Put(MakeSnapshotClass("best", is_default));
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(Get().error(), "");
}

TEST_F(SnapshotControllerTest, TwoDefaultClassesAreOneTooMany) {
  const Json is_default = {{"metadata", {{"annotations", {{kDefaultSnapshotClass, "true"}}}}}};
  cluster_.Put(MakeSnapshotClass("a", is_default));
  cluster_.Put(MakeSnapshotClass("b", is_default));
  Begin();
  Add({{"spec", {{"volumeSnapshotClassName", nullptr}}}});
  ASSERT_TRUE(WaitError("2 default snapshot classes were found"));
  EXPECT_FALSE(cluster_.Has<Content>("", kContent));
}

TEST_F(SnapshotControllerTest, AClassThatDoesNotExistIsToldAndAwaited) {
  Begin(Slow());
  Add({{"spec", {{"volumeSnapshotClassName", "later"}}}});
  ASSERT_TRUE(WaitError("volumesnapshotclass.snapshot.storage.k8s.io \"later\" not found"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GetSnapshotClassFailed"));
  EXPECT_FALSE(GetClaim().has_finalizer(kClaimSourceProtection));
  EXPECT_FALSE(Get().json()["status"].contains("readyToUse")) << "nothing is known of it yet";
  cluster_.Put(MakeSnapshotClass("later"));
  ASSERT_TRUE(WaitBound());
}

TEST_F(SnapshotControllerTest, AClassThatGoesIsToldOnReadySnapshotsUntilItIsBack) {
  Begin(Slow());
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  cluster_.client.Remove(api::VolumeSnapshotClass::kInfo, "", "snap");
  ASSERT_TRUE(WaitError("volumesnapshotclass.snapshot.storage.k8s.io \"snap\" not found"));
  EXPECT_TRUE(Get().ready());
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GetSnapshotClassFailed default/monday"));
  cluster_.Put(MakeSnapshotClass("snap"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get().error().empty(); }));
  EXPECT_TRUE(Get().ready());
}

TEST_F(SnapshotControllerTest, ASnapshotWhoseClassIsGoneCanBeDeleted) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  cluster_.client.Remove(api::VolumeSnapshotClass::kInfo, "", "snap");
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetContent().deleting(); }));
  ContentEnds();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotControllerTest, AClassIsFoundThoughTheSnapshotIsSeenBeforeIt) {
  Begin(Slow());
  for (const char* verb : {"watch", "list"}) {
    for (int i = 0; i < 20; ++i) {
      cluster_.client.FailNext(verb, "volumesnapshotclasses",
                               base::Error(StatusCode::kUnavailable, ""));
    }
  }
  cluster_.client.EndWatches();
  cluster_.Put(MakeSnapshotClass("new"));
  Add({{"spec", {{"volumeSnapshotClassName", "new"}}}});
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(cluster_.events.Count("Warning GetSnapshotClassFailed"), 0);
}

TEST_F(SnapshotControllerTest, TheClassesSecretAndPolicyStandInTheContent) {
  cluster_.Put(MakeSnapshotClass(
      "snap",
      {{"deletionPolicy", "Retain"},
       {"parameters",
        {{"csi.storage.k8s.io/snapshotter-secret-name", "key-${volumesnapshot.name}"},
         {"csi.storage.k8s.io/snapshotter-secret-namespace", "${volumesnapshot.namespace}"}}}}));
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent().annotation(kSnapshotSecretName), "key-monday");
  EXPECT_EQ(GetContent().annotation(kSnapshotSecretNamespace), "default");
  EXPECT_EQ(GetContent().deletion_policy(), "Retain");
  // Nothing of the driver's goes with the VolumeSnapshot, so it waits for nothing.
  EXPECT_THAT(Get().finalizers(), ElementsAre(kSnapshotSourceProtection));
}

// -- sources

TEST_F(SnapshotControllerTest, WhatCannotBeTakenIsTold) {
  struct Case {
    std::function<void(FakeCluster&)> wrong;
    std::string words;
  };
  for (const Case& one : {
           Case{[](auto& c) { c.client.Remove(Claim::kInfo, "default", "data"); },
                "the PVC data does not exist"},
           Case{[](auto& c) { c.Put(MakeClaim("data")); }, "the PVC data is not yet bound to a PV"},
           Case{[](auto& c) { c.Put(MakeVolume("pv-1", BoundVolume("another"))); },
                "is not bound to it"},
           Case{[](auto& c) {
                  Json local = MakeVolume("pv-1", BoundVolume("data"));
                  local["spec"].erase("csi");
                  c.Put(local);
                },
                "cannot find CSI PersistentVolumeSource"},
           Case{
               [](auto& c) { c.Put(MakeSnapshotClass("snap", {{"driver", "other.example.com"}})); },
               "is of driver 'other.example.com'"},
           Case{[](auto& c) {
                  ASSERT_TRUE(c.client.Delete(Claim::kInfo, "default", "data", {}).ok());
                },
                "because it is being deleted"},
           Case{[](auto& c) {
                  c.Put(MakeSnapshotClass(
                      "snap",
                      {{"parameters", {{"csi.storage.k8s.io/snapshotter-secret-name", "x"}}}}));
                },
                "go together"},
       }) {
    Bed fresh;
    one.wrong(fresh.cluster_);
    fresh.Begin();
    fresh.Add();
    EXPECT_TRUE(fresh.WaitError(one.words)) << one.words << "; is: " << fresh.Get().error();
    EXPECT_TRUE(fresh.cluster_.events.WaitFor("Warning SnapshotContentCreationFailed"));
    EXPECT_FALSE(fresh.cluster_.Has<Content>("", kContent));
    EXPECT_TRUE(fresh.Get().has_finalizer(kSnapshotSourceProtection));
  }
}

TEST_F(SnapshotControllerTest, AClaimThatIsBoundLaterIsNoticed) {
  cluster_.Put(MakeClaim("data"));
  Begin(Slow());
  Add();
  ASSERT_TRUE(WaitError("not yet bound"));
  EXPECT_TRUE(GetClaim().has_finalizer(kClaimSourceProtection));
  EXPECT_THAT(Get().finalizers(), ElementsAre(kSnapshotSourceProtection));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  EXPECT_TRUE(WaitBound());
}

TEST_F(SnapshotControllerTest, ASourceThatIsNoneOrBothIsRefused) {
  for (const Json& source : {Json::object(), Json{{"persistentVolumeClaimName", "data"},
                                                  {"volumeSnapshotContentName", "by-hand"}}}) {
    Bed fresh;
    fresh.Begin();
    Json snapshot = MakeSnapshot("monday");
    snapshot["spec"]["source"] = source;
    fresh.cluster_.Put(snapshot);
    EXPECT_TRUE(fresh.WaitError("Exactly one of"));
    EXPECT_TRUE(fresh.cluster_.events.WaitFor("Warning SnapshotValidationError"));
  }
}

TEST_F(SnapshotControllerTest, TheVolumesModeIsLeftOutWhereNobodyIsToCare) {
  Options options = Fast();
  options.prevent_volume_mode_conversion = false;
  Begin(options);
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent().source_volume_mode(), "");
}

TEST_F(SnapshotControllerTest, WhereEachNodeHasASnapshotterTheContentNamesOneThatReachesIt) {
  Json volume = MakeVolume("pv-1", BoundVolume("data"));
  volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = Json::array(
      {{{"matchExpressions",
         {{{"key", "kubernetes.io/hostname"}, {"operator", "In"}, {"values", {"node-b"}}}}}}});
  cluster_.Put(volume);
  cluster_.Put(MakeNode("node-a"));
  cluster_.Put(MakeNode("node-b"));
  Options options = Fast();
  options.distributed_snapshotting = true;
  Begin(options);
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent().label(kManagedByNode), "node-b");
}

TEST_F(SnapshotControllerTest, WhereNoNodeReachesTheVolumeTheContentNamesNone) {
  Json volume = MakeVolume("pv-1", BoundVolume("data"));
  volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = Json::array(
      {{{"matchExpressions",
         {{{"key", "kubernetes.io/hostname"}, {"operator", "In"}, {"values", {"gone"}}}}}}});
  cluster_.Put(volume);
  cluster_.Put(MakeNode("node-a"));
  Options options = Fast();
  options.distributed_snapshotting = true;
  Begin(options);
  Add();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent().label(kManagedByNode), "");
}

TEST_F(SnapshotControllerTest, ASnapshotWhoseContentVanishedIsNeverTakenAgain) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  cluster_.client.Remove(Content::kInfo, "", kContent);
  ASSERT_TRUE(WaitError("VolumeSnapshotContent is missing"));
  EXPECT_FALSE(Get().ready());
  // Its own write of the error brings it here again.
  ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotContentMissing"));
  cluster_.Put(MakeSnapshot("other"));
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Has<Content>("", "snapcontent-uid-other"); }));
  EXPECT_FALSE(cluster_.Has<Content>("", kContent));
}

TEST_F(SnapshotControllerTest, AContentOfAnotherSnapshotIsNotTaken) {
  cluster_.Put(
      MakeContent("monday", "handle-pv-1", {{"spec", {{"volumeSnapshotRef", {{"uid", "old"}}}}}}));
  Begin();
  Add();
  ASSERT_TRUE(WaitError("is bound to a different snapshot"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotContentMisbound"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotFinalizerError"));
}

// -- of a content that exists

TEST_F(ExistingSnapshotTest, TheTwoNameEachOtherAndAreBound) {
  Begin();
  AddExisting({{"spec", {{"volumeSnapshotClassName", nullptr}}}});
  AddAsking();
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent("by-hand").snapshot_uid(), "uid-monday");
  EXPECT_EQ(GetContent("by-hand").class_name(), "snap");
  EXPECT_TRUE(GetContent("by-hand").has_finalizer(kContentProtection));
  Taken("by-hand");
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().content_name(), "by-hand");
  EXPECT_FALSE(GetClaim().has_finalizer(kClaimSourceProtection));
}

TEST_F(ExistingSnapshotTest, TheClassOfTheSnapshotReplacesThatOfTheContent) {
  cluster_.Put(MakeSnapshotClass("of-the-snapshot"));
  Begin();
  AddExisting();
  cluster_.Put(MakeSnapshot(
      "monday",
      {{"spec",
        {{"volumeSnapshotClassName", "of-the-snapshot"},
         {"source",
          {{"persistentVolumeClaimName", nullptr}, {"volumeSnapshotContentName", "by-hand"}}}}}}));
  ASSERT_TRUE(WaitBound());
  EXPECT_EQ(GetContent("by-hand").class_name(), "of-the-snapshot");
}

TEST_F(ExistingSnapshotTest, AContentThatComesLaterIsNoticed) {
  Begin(Slow());
  AddAsking();
  ASSERT_TRUE(WaitError("VolumeSnapshotContent is missing"));
  EXPECT_THAT(Get().finalizers(), ElementsAre(kSnapshotSourceProtection));
  AddExisting();
  EXPECT_TRUE(WaitBound());
}

TEST_F(ExistingSnapshotTest, AContentThatIsNotMeantIsRefused) {
  struct Case {
    Json more;
    std::string reason;
  };
  for (const Case& one : {
           Case{{{"spec", {{"volumeSnapshotRef", {{"name", "tuesday"}}}}}},
                "SnapshotContentMisbound"},
           Case{{{"spec", {{"volumeSnapshotRef", {{"namespace", "other"}}}}}},
                "SnapshotContentMisbound"},
           Case{{{"spec", {{"volumeSnapshotRef", {{"uid", "another"}}}}}},
                "SnapshotContentMisbound"},
           Case{{{"spec", {{"source", {{"snapshotHandle", nullptr}, {"volumeHandle", "v"}}}}}},
                "SnapshotContentMismatch"},
       }) {
    ExistingBed fresh;
    fresh.Begin();
    fresh.AddExisting(one.more);
    fresh.AddAsking();
    EXPECT_TRUE(fresh.cluster_.events.WaitFor("Warning " + one.reason)) << one.more.dump();
    EXPECT_FALSE(fresh.Get().ready());
    EXPECT_EQ(fresh.Get().content_name(), "");
  }
}

TEST_F(ExistingSnapshotTest, AContentWithBothHandlesOrNoneIsToldOf) {
  Begin();
  AddExisting({{"spec", {{"source", {{"volumeHandle", "v"}}}}}});
  EXPECT_TRUE(cluster_.events.WaitFor("Warning ContentValidationError"));
}

TEST_F(ExistingSnapshotTest, ItsDeletionFollowsThePolicy) {
  for (const bool deleted : {true, false}) {
    ExistingBed fresh;
    fresh.Begin();
    fresh.AddExisting({{"spec", {{"deletionPolicy", deleted ? "Delete" : "Retain"}}}});
    fresh.AddAsking();
    ASSERT_TRUE(fresh.WaitBound());
    fresh.Taken("by-hand");
    ASSERT_TRUE(fresh.WaitReady());
    fresh.Delete();
    if (deleted) {
      ASSERT_TRUE(fresh.cluster_.WaitUntil([&] { return fresh.GetContent("by-hand").deleting(); }));
      EXPECT_TRUE(fresh.cluster_.Has<Snapshot>("default", "monday"));
      fresh.ContentEnds("by-hand");
    }
    ASSERT_TRUE(fresh.WaitGone());
    EXPECT_EQ(fresh.cluster_.Has<Content>("", "by-hand"), !deleted);
    if (!deleted) {
      EXPECT_EQ(fresh.GetContent("by-hand").annotation(kBeingDeleted), "yes");
    }
  }
}

// -- deletion

TEST_F(SnapshotControllerTest, TheSnapshotStaysUntilItsContentIsGone) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetContent().deleting(); }));
  EXPECT_EQ(GetContent().annotation(kBeingDeleted), "yes");
  EXPECT_TRUE(Get().has_finalizer(kSnapshotBoundProtection));
  ContentEnds();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotControllerTest, ASnapshotFromWhichAVolumeIsBeingRestoredStays) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  const Json source = {{"spec",
                        {{"dataSource",
                          {{"apiGroup", "snapshot.storage.k8s.io"},
                           {"kind", "VolumeSnapshot"},
                           {"name", "monday"}}}}}};
  cluster_.Put(MakeClaim("copy", source));
  Delete();
  ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotDeletePending"));
  EXPECT_FALSE(GetContent().has_annotation(kBeingDeleted));
  cluster_.Put(MakeClaim("copy", Merged(source, BoundClaim("pv-2"))));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetContent().deleting(); }));
  ContentEnds();
  EXPECT_TRUE(WaitGone());
}

// As after a crash between the claim's finalizer and the content.
TEST_F(SnapshotControllerTest, AClaimThatIsHeldIsUsedAlsoWhileItIsBeingDeleted) {
  cluster_.Put(MakeClaim(
      "data", Merged(BoundClaim("pv-1"), {{"metadata",
                                           {{"finalizers", {kClaimSourceProtection}},
                                            {"deletionTimestamp", "2026-01-01T00:00:00Z"}}}})));
  Add();
  Begin();
  EXPECT_TRUE(WaitBound());
}

TEST_F(SnapshotControllerTest, ASnapshotThatIsDeletedBeforeItIsTakenLetsTheClaimGoAtOnce) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Delete();
  ASSERT_TRUE(WaitClaimFree());
  EXPECT_TRUE(GetContent().deleting());
  EXPECT_THAT(Get().finalizers(), ElementsAre(kSnapshotBoundProtection));
  ContentEnds();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotControllerTest, ARetainedSnapshotThatIsBeingTakenGoesAtOnce) {
  cluster_.Put(MakeSnapshotClass("snap", {{"deletionPolicy", "Retain"}}));
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Write(GetContent(), {{"metadata", {{"annotations", {{kBeingCreated, "yes"}}}}}});
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_TRUE(WaitClaimFree());
  EXPECT_TRUE(GetContent().has_annotation(kBeingDeleted));
  EXPECT_FALSE(GetContent().deleting());
}

TEST_F(SnapshotControllerTest, ASnapshotThatNeverHadAContentGoes) {
  Begin();
  Add({{"spec", {{"volumeSnapshotClassName", "none"}}},
       {"metadata", {{"finalizers", {kSnapshotSourceProtection}}}}});
  ASSERT_TRUE(WaitError("not found"));
  Delete();
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotControllerTest, AContentThatNamesAnotherIsNotDeletedWithIt) {
  cluster_.Put(
      MakeContent("monday", "handle-pv-1", {{"spec", {{"volumeSnapshotRef", {{"uid", "old"}}}}}}));
  Begin();
  Add({{"metadata", {{"finalizers", {kSnapshotSourceProtection, kSnapshotBoundProtection}}}},
       {"status", {{"boundVolumeSnapshotContentName", kContent}}}});
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(GetContent().deleting());
  EXPECT_FALSE(GetContent().has_annotation(kBeingDeleted));
}

TEST_F(SnapshotControllerTest, AContentWithoutItsSnapshotIsKept) {
  // A person may have copied the content from another cluster, and may make the VolumeSnapshot
  // next.
  cluster_.Put(MakeContent("monday", "handle-pv-1", {{"metadata", {{"finalizers", nullptr}}}}));
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetContent().has_finalizer(kContentProtection); }));
  EXPECT_FALSE(GetContent().deleting());
  EXPECT_FALSE(GetContent().has_annotation(kBeingDeleted));
}

TEST_F(SnapshotControllerTest, AFailedDeletionOfTheContentIsToldAndTriedAgain) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  cluster_.client.FailNext("delete", "volumesnapshotcontents",
                           base::Error(StatusCode::kPermissionDenied, "may not"));
  Delete();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotContentObjectDeleteError"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetContent().deleting(); }));
}

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
