#include "controllers/snapshotter/snapshotter_fixture.h"

namespace berth::controllers::snapshotter {
namespace {

[[maybe_unused]] const auto* const kRights =
    CheckRightsOf("snapshotter", "csi/base/rbac/snapshotter.yaml",
                  {"get volumesnapshotclasses.snapshot.storage.k8s.io",
                   "get volumesnapshotcontents.snapshot.storage.k8s.io",
                   "update volumesnapshotcontents/status.snapshot.storage.k8s.io",
                   "get volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io",
                   "get volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io",
                   "update volumegroupsnapshotcontents/status.groupsnapshot.storage.k8s.io"});

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using Create = csi::v1::CreateSnapshotRequest;

TEST_F(SnapshotterTest, TakesASnapshotAndSaysWhatTheDriverSaid) {
  Begin();
  Add();
  ASSERT_TRUE(WaitReady());
  const auto request = script().LastRequest<Create>("CreateSnapshot");
  EXPECT_EQ(request.name(), "snapshot-uid-monday");
  EXPECT_EQ(request.source_volume_id(), handle_);
  const Content content = Get();
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), ElementsAre(content.snapshot_handle()));
  EXPECT_EQ(content.restore_bytes(), int64_t{1} << 30);
  EXPECT_GT(content.creation_nanoseconds(), 1767225600LL * 1'000'000'000);
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("patch volumesnapshotcontents/snapcontent-uid-monday",
                          "patch volumesnapshotcontents/snapcontent-uid-monday/status",
                          "patch volumesnapshotcontents/snapcontent-uid-monday"));
}

TEST_F(SnapshotterTest, ThatItAsksIsDurableBeforeItDoes) {
  Begin();
  script().Hang("CreateSnapshot");
  Add({{"metadata", {{"finalizers", nullptr}}}});
  ASSERT_TRUE(script().WaitFor("CreateSnapshot"));
  EXPECT_EQ(Get().annotation(kBeingCreated), "yes");
  EXPECT_TRUE(Get().has_finalizer(kContentProtection));
  EXPECT_FALSE(Get().has_status());
  script().Release("CreateSnapshot");
  EXPECT_TRUE(WaitReady());
}

TEST_F(SnapshotterTest, TheDriverGetsItsParametersTheSecretAndWhatItMayKnow) {
  Options options = Fast();
  options.extra_create_metadata = true;
  options.snapshot_name_prefix = "snap";
  options.snapshot_name_uuid_length = 6;
  Begin({}, options);
  cluster_.Put(MakeSnapshotClass(
      "snap",
      {{"parameters", {{"speed", "high"}, {"csi.storage.k8s.io/snapshotter-secret-name", "x"}}}}));
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Secret"},
                {"metadata", {{"name", "key"}, {"namespace", "vault"}}},
                {"data", {{"password", "c2VjcmV0"}}}});
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto known = cluster_.informers.Of<api::VolumeSnapshotClass>().Get("snap");
    return known != nullptr && !known->parameters().empty();
  }));
  Add({{"metadata",
        {{"annotations", {{kSnapshotSecretName, "key"}, {kSnapshotSecretNamespace, "vault"}}}}}});
  ASSERT_TRUE(WaitReady());
  const auto request = script().LastRequest<Create>("CreateSnapshot");
  EXPECT_EQ(request.name(), "snap-uidmon");
  EXPECT_THAT(request.secrets(), ElementsAre(Pair("password", "secret")));
  EXPECT_EQ(request.parameters().at("speed"), "high");
  EXPECT_EQ(request.parameters().at("csi.storage.k8s.io/volumesnapshot/name"), "monday");
  EXPECT_EQ(request.parameters().at("csi.storage.k8s.io/volumesnapshotcontent/name"), kContent);
  EXPECT_THAT(request.parameters(), SizeIs(4));
}

TEST_F(SnapshotterTest, ASnapshotThatIsBeingUploadedIsAskedAboutUntilItIsReady) {
  rpc::FakeCsiDriver::Options driver;
  driver.snapshot_uploads = 3;
  Begin(driver);
  Add();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().snapshot_handle().empty(); }));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("CreateSnapshot"), 4);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), SizeIs(1));
}

TEST_F(SnapshotterTest, ARefusalIsToldAndNothingIsLeftToAskFor) {
  Begin({}, Slow());
  script().Fail("CreateSnapshot", base::Error(StatusCode::kInvalidArgument, "no such thing"));
  Add();
  ASSERT_TRUE(WaitError("code = InvalidArgument desc = no such thing"));
  EXPECT_FALSE(Get().has_annotation(kBeingCreated));
  EXPECT_FALSE(Get().ready());
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotCreationFailed"));
  // Its own write of the error does not shorten the backoff; its class does.
  cluster_.Put(MakeSnapshotClass("snap", {{"parameters", {{"speed", "high"}}}}));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().error(), "");
  EXPECT_EQ(script().Count("CreateSnapshot"), 2);
}

TEST_F(SnapshotterTest, AnUnknownOutcomeIsAskedForUntilItIsKnownAlthoughTheContentGoes) {
  Begin();
  script().LoseAnswer("CreateSnapshot", CallScript::kAlways);
  Add(kDeleted);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().error().empty(); }));
  EXPECT_EQ(Get().annotation(kBeingCreated), "yes");
  Delete();
  ASSERT_TRUE(script().WaitFor("CreateSnapshot", script().Count("CreateSnapshot") + 2));
  EXPECT_EQ(Get().annotation(kBeingCreated), "yes");
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
  script().LoseAnswer("CreateSnapshot", 0);
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 1);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

TEST_F(SnapshotterTest, AProcessThatEndedAfterTheCallFindsWhatItMade) {
  Begin();
  Add({{"metadata", {{"annotations", {{kBeingCreated, "yes"}}}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), SizeIs(1));
}

TEST_F(SnapshotterTest, AMarkThatIsLeftOnAReadySnapshotIsRemovedWithoutACall) {
  Begin();
  Json more = ReadyContent(AddToDriver());
  more["metadata"]["annotations"][kBeingCreated] = "yes";
  Add(more);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !Get().has_annotation(kBeingCreated); }));
  EXPECT_TRUE(Get().ready());
  EXPECT_EQ(script().Count("CreateSnapshot"), 0);
}

TEST_F(SnapshotterTest, AContentThatAPersonDeletedIsTakenNeverthelessAndKept) {
  rpc::FakeCsiDriver::Options driver;
  driver.snapshot_uploads = 2;
  Begin(driver);
  Add({{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("CreateSnapshot"), 3);
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
  Write(kContent, kDeleted);
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotterTest, AnErrorStandsInTheStatusUntilTheSnapshotIsReady) {
  std::atomic<bool> uploaded = false;
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [&](csi::v1::CreateSnapshotResponse& answer) {
    answer.mutable_snapshot()->set_ready_to_use(uploaded);
  };
  Begin(driver);
  script().Fail("CreateSnapshot", base::Error(StatusCode::kInternal, "no"));
  Add();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().snapshot_handle().empty(); }));
  EXPECT_THAT(Get().error(), HasSubstr("desc = no"));
  uploaded = true;
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().error(), "");
}

TEST_F(SnapshotterTest, AFailureDuringTheUploadIsToldAsOneOfACheck) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [](csi::v1::CreateSnapshotResponse& answer) {
    answer.mutable_snapshot()->set_ready_to_use(false);
  };
  Begin(driver);
  Add();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().snapshot_handle().empty(); }));
  script().Fail("CreateSnapshot", base::Error(StatusCode::kInternal, "no"), CallScript::kAlways);
  ASSERT_TRUE(
      WaitError("Failed to check and update snapshot content: failed to take snapshot of the "
                "volume"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotContentCheckandUpdateFailed"));
  EXPECT_EQ(cluster_.events.Count("SnapshotCreationFailed"), 0);
}

TEST_F(SnapshotterTest, OneSecretAnnotationAloneNamesNoSecret) {
  Begin();
  Add({{"metadata", {{"annotations", {{kSnapshotSecretName, "key"}}}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_THAT(script().LastRequest<Create>("CreateSnapshot").secrets(), IsEmpty());
}

TEST_F(SnapshotterTest, ALostAnswerOfTheApiIsRepairedByAskingAgain) {
  Begin();
  cluster_.client.LoseNextAnswer("patch", "volumesnapshotcontents",
                                 base::Error(StatusCode::kAborted, "lost"));
  cluster_.client.FailNext("patch", "volumesnapshotcontents/status",
                           base::Error(StatusCode::kAborted, "conflict"));
  Add();
  ASSERT_TRUE(WaitReady());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), SizeIs(1));
}

TEST_F(SnapshotterTest, WhatIsMissingIsTold) {
  struct Case {
    Json more;
    std::string words;
  };
  for (const Case& one : {
           Case{{{"spec", {{"volumeSnapshotClassName", "none"}}}},
                "VolumeSnapshotClass 'none' does not exist"},
           Case{{{"spec", {{"volumeSnapshotClassName", nullptr}}}}, "no VolumeSnapshotClass"},
           Case{{{"spec", {{"volumeSnapshotRef", {{"uid", nullptr}}}}}},
                "volumeSnapshotRef.uid is empty"},
           Case{{{"metadata",
                  {{"annotations",
                    {{kSnapshotSecretName, "key"}, {kSnapshotSecretNamespace, ""}}}}}},
                "name no secret: one is empty"},
           Case{{{"metadata",
                  {{"annotations",
                    {{kSnapshotSecretName, "key"}, {kSnapshotSecretNamespace, "vault"}}}}}},
                "read secret 'vault/key'"},
       }) {
    Bed fresh;
    fresh.Begin();
    fresh.Add(one.more);
    EXPECT_TRUE(fresh.WaitError(one.words)) << one.words << "; is: " << fresh.Get().error();
    EXPECT_EQ(fresh.script().Count("CreateSnapshot"), 0);
    EXPECT_FALSE(fresh.Get().has_annotation(kBeingCreated));
  }
}

TEST_F(SnapshotterTest, ADriverThatTakesNoSnapshotsIsToldOf) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  Begin(driver);
  Add();
  ASSERT_TRUE(WaitError("driver 'fake.csi.example.com' cannot take snapshots"));
  EXPECT_EQ(script().Count("CreateSnapshot"), 0);
}

TEST_F(SnapshotterTest, AContentOfNoNodeIsServedByTheOneThatTakesThem) {
  Options options = Fast();
  options.node_name = "node-a";
  options.takes_unassigned = true;
  Begin({}, options);
  cluster_.Put(MakeContent("elsewhere", handle_,
                           {{"metadata", {{"labels", {{kManagedByNode, "node-b"}}}}}}));
  Add();
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("CreateSnapshot"), 1);
}

TEST_F(SnapshotterTest, AnotherDriversAnotherNodesAndGroupsContentsAreLeftAlone) {
  Options options = Fast();
  options.node_name = "node-a";
  Begin({}, options);
  Json theirs = MakeContent("theirs", handle_, {{"spec", {{"driver", "other.example.com"}}}});
  cluster_.Put(theirs);
  cluster_.Put(MakeContent("elsewhere", handle_,
                           {{"metadata", {{"labels", {{kManagedByNode, "node-b"}}}}}}));
  cluster_.Put(MakeContent("member", handle_,
                           {{"metadata",
                             {{"labels", {{kManagedByNode, "node-a"}}},
                              {"annotations", {{kGroupHandle, "group-1"}}}}}}));
  Add({{"metadata", {{"labels", {{kManagedByNode, "node-a"}}}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("CreateSnapshot"), 1);
}

// -- snapshots that exist already

TEST_F(SnapshotterTest, ASnapshotThatExistsIsLookedUpInTheList) {
  Begin();
  const std::string old = AddToDriver();
  Add(Existing(old));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot_handle(), old);
  EXPECT_EQ(Get().restore_bytes(), int64_t{1} << 30);
  EXPECT_EQ(script().LastRequest<csi::v1::ListSnapshotsRequest>("ListSnapshots").snapshot_id(),
            old);
  EXPECT_EQ(script().Count("CreateSnapshot"), 0);
}

TEST_F(SnapshotterTest, ADriverThatHasGetSnapshotIsAskedByTheListNevertheless) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities.insert(DriverInfo::Rpc::GET_SNAPSHOT);
  driver.snapshot_uploads = 2;
  Begin(driver);
  const std::string old = AddToDriver();
  Add(Existing(old));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("GetSnapshot"), 0);
  EXPECT_GE(script().Count("ListSnapshots"), 2);
}

TEST_F(SnapshotterTest, TheFirstOfAListWithoutTheIdIsTakenForIt) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot_list = [](csi::v1::ListSnapshotsResponse& answer) {
    answer.clear_entries();
    for (const int64_t size : {4096, 8192}) {
      csi::v1::Snapshot& snapshot = *answer.add_entries()->mutable_snapshot();
      snapshot.set_snapshot_id(fmt::format("pool/{}", size));
      snapshot.set_size_bytes(size);
      snapshot.set_ready_to_use(true);
    }
  };
  Begin(driver);
  Add(Existing("4096"));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot_handle(), "4096");
  EXPECT_EQ(Get().restore_bytes(), 4096);
}

TEST_F(SnapshotterTest, OneThatTheDriverListsAsSecondIsFoundByItsId) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot_list = [](csi::v1::ListSnapshotsResponse& answer) {
    answer.add_entries()->mutable_snapshot()->set_snapshot_id("another");
    answer.mutable_entries()->SwapElements(0, answer.entries_size() - 1);
  };
  Begin(driver);
  Add(Existing(AddToDriver()));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().restore_bytes(), int64_t{1} << 30);
}

TEST_F(SnapshotterTest, OnePageOfAListIsRead) {
  rpc::FakeCsiDriver::Options driver;
  driver.endless_pages = true;
  Begin(driver, Slow());
  Add(Existing("snap-99"));
  ASSERT_TRUE(WaitError("can not find snapshot for snapshotID snap-99"));
  EXPECT_EQ(script().Count("ListSnapshots"), 1);
}

// An empty id would ask for all snapshots, of which the first would be taken.
TEST_F(SnapshotterTest, WithoutAnIdNothingIsListed) {
  Begin();
  AddToDriver();
  Add(Existing(""));
  ASSERT_TRUE(WaitError("can not find snapshot for snapshotID"));
  EXPECT_EQ(script().Count("ListSnapshots"), 0);
}

TEST_F(SnapshotterTest, ADriverThatCannotBeAskedIsBelieved) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT};
  Begin(driver);
  Add(Existing("snap-by-hand"));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot_handle(), "snap-by-hand");
}

TEST_F(SnapshotterTest, ASnapshotThatDoesNotExistIsTold) {
  Begin();
  Add(Existing("snap-99"));
  ASSERT_TRUE(WaitError("can not find snapshot for snapshotID snap-99"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotContentCheckandUpdateFailed"));
  EXPECT_FALSE(Get().ready());
}

// -- deletion

TEST_F(SnapshotterTest, DeletesTheSnapshotThenForgetsItsHandleThenLetsGo) {
  Begin();
  Add(kDeleted);
  ASSERT_TRUE(WaitReady());
  const std::string handle = Get().snapshot_handle();
  cluster_.client.TakeActions();
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().LastRequest<csi::v1::DeleteSnapshotRequest>("DeleteSnapshot").snapshot_id(),
            handle);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
  const auto actions = cluster_.client.TakeActions();
  ASSERT_GE(actions.size(), 3U);  // the deletion, the handle, the finalizer
  EXPECT_THAT(actions[1], HasSubstr(R"("snapshotHandle":null)"));
  EXPECT_THAT(actions[2], HasSubstr("finalizers"));
}

TEST_F(SnapshotterTest, NothingIsDeletedInTheDriverUnlessTheControllerSaidSo) {
  Begin();
  Add();
  ASSERT_TRUE(WaitReady());
  Delete();
  cluster_.Put(MakeContent("later", handle_));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Content>("", "snapcontent-uid-later").ready(); }));
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
  EXPECT_TRUE(Get().has_finalizer(kContentProtection));
}

TEST_F(SnapshotterTest, ARetainedSnapshotStaysInTheDriver) {
  Begin();
  Json more = kDeleted;
  more["spec"]["deletionPolicy"] = "Retain";
  Add(more);
  ASSERT_TRUE(WaitReady());
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), SizeIs(1));
}

TEST_F(SnapshotterTest, AFailedDeletionKeepsTheContentAndSaysWhy) {
  Begin();
  Add(kDeleted);
  ASSERT_TRUE(WaitReady());
  script().Fail("DeleteSnapshot", base::Error(StatusCode::kFailedPrecondition, "a volume uses it"),
                CallScript::kAlways);
  Delete();
  ASSERT_TRUE(
      WaitError("Failed to delete snapshot: rpc error: code = FailedPrecondition desc = "
                "a volume uses it"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SnapshotDeleteError"));
  EXPECT_NE(Get().snapshot_handle(), "");
  script().Fail("DeleteSnapshot", base::OkStatus(), 0);
  EXPECT_TRUE(WaitGone());
}

TEST_F(SnapshotterTest, AContentThatWasNeverTakenGoesWithoutACall) {
  Begin({}, Slow());
  script().Fail("CreateSnapshot", base::Error(StatusCode::kInternal, "no"), CallScript::kAlways);
  Add(kDeleted);
  ASSERT_TRUE(WaitError("desc = no"));
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
}

TEST_F(SnapshotterTest, AContentThatNobodyBoundIsItsOwn) {
  Begin();
  const std::string old = AddToDriver();
  Json more = Existing(old);
  more["metadata"]["finalizers"] = {kContentProtection};
  Add(more);
  ASSERT_TRUE(WaitReady());
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

TEST_F(SnapshotterTest, AnAbsentDriverIsWaitedForWithoutItsBackoff) {
  Begin({}, Slow());
  cluster_.Put(MakeContent("first", handle_));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Content>("", "snapcontent-uid-first").ready(); }));
  cluster_.driver->GoAway();
  Add();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().error().empty(); }));
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  EXPECT_TRUE(WaitReady());
}

}  // namespace
}  // namespace berth::controllers::snapshotter
