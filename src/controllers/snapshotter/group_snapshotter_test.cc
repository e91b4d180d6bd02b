#include "controllers/snapshotter/group_snapshotter.h"

#include "controllers/fake_group_snapshots.h"
#include "controllers/snapshotter/snapshotter_fixture.h"

namespace berth::controllers::snapshotter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using CreateGroup = csi::v1::CreateVolumeGroupSnapshotRequest;
using GroupContent = api::VolumeGroupSnapshotContent;

constexpr char kGroupContent[] = "groupsnapcontent-uid-nightly";
const Json kGroupDeleted = {{"metadata", {{"annotations", {{kGroupBeingDeleted, "yes"}}}}}};

class GroupSnapshotterTest : public SnapshotterTest {
 protected:
  GroupSnapshotterTest() { ServeGroups(cluster_.client); }

  void BeginGroups(rpc::FakeCsiDriver::Options driver = {}, Options options = Fast()) {
    cluster_.client.Add(MakeGroupClass("group"));
    Begin(std::move(driver), std::move(options));
    cluster_.AddVolume("pv-2");
    other_ = cluster_.Get<api::PersistentVolume>("", "pv-2").csi().volume_handle();
  }
  void AddGroup(const Json& more = nullptr) {
    cluster_.client.Add(MakeGroupContent("nightly", {handle_, other_}, more));
  }
  // Adds to the driver a group snapshot that another program made.
  csi::v1::VolumeGroupSnapshot AddGroupToDriver(const std::string& name = "old") {
    CreateGroup request;
    request.set_name(name);
    request.add_source_volume_ids(handle_);
    request.add_source_volume_ids(other_);
    csi::v1::CreateVolumeGroupSnapshotResponse response;
    EXPECT_TRUE(cluster_.driver->state().Handle(request, response).ok());
    return response.group_snapshot();
  }
  GroupContent GetGroup() { return cluster_.Get<GroupContent>("", kGroupContent); }
  bool WaitGroupReady() {
    return cluster_.WaitUntil(
        [&] { return GetGroup().ready() && !GetGroup().has_annotation(kGroupBeingCreated); });
  }
  bool WaitGroupError(const std::string& text) {
    return cluster_.WaitUntil([&] { return GetGroup().error().find(text) != std::string::npos; });
  }
  bool WaitGroupGone() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<GroupContent>("", kGroupContent); });
  }
  void DeleteGroup() {
    ASSERT_TRUE(cluster_.client.Delete(GroupContent::kInfo, "", kGroupContent, {}).ok());
  }
  std::vector<std::string> Groups() { return cluster_.driver->state().GroupIds(); }

  std::string other_;  // the handle of the second volume
};

TEST_F(GroupSnapshotterTest, TakesAGroupAndSaysWhatTheDriverSaid) {
  BeginGroups();
  AddGroup();
  ASSERT_TRUE(WaitGroupReady());
  const auto request = script().LastRequest<CreateGroup>("CreateVolumeGroupSnapshot");
  EXPECT_EQ(request.name(), "groupsnapshot-uid-nightly");
  EXPECT_THAT(request.source_volume_ids(), ElementsAre(handle_, other_));
  const GroupContent content = GetGroup();
  EXPECT_THAT(Groups(), ElementsAre(content.group_handle()));
  EXPECT_THAT(content.creation_time(), HasSubstr("2026-01-01T00:00:"));
  ASSERT_THAT(content.snapshot_infos(), SizeIs(2));
  const Json& info = content.snapshot_infos()[1];
  EXPECT_EQ(info["volumeHandle"], other_);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(),
              ElementsAre(content.snapshot_infos()[0]["snapshotHandle"], info["snapshotHandle"]));
  EXPECT_EQ(info["restoreSize"], int64_t{1} << 30);
  EXPECT_EQ(info["readyToUse"], true);
  EXPECT_GT(info["creationTime"], 1767225600LL * 1'000'000'000);
}

TEST_F(GroupSnapshotterTest, ThatItAsksIsDurableBeforeItDoes) {
  BeginGroups();
  script().Hang("CreateVolumeGroupSnapshot");
  AddGroup({{"metadata", {{"finalizers", nullptr}}}});
  ASSERT_TRUE(script().WaitFor("CreateVolumeGroupSnapshot"));
  EXPECT_EQ(GetGroup().annotation(kGroupBeingCreated), "yes");
  EXPECT_TRUE(GetGroup().has_finalizer(kGroupContentProtection));
  script().Release("CreateVolumeGroupSnapshot");
  EXPECT_TRUE(WaitGroupReady());
}

TEST_F(GroupSnapshotterTest, TheDriverGetsItsParametersTheSecretAndWhatItMayKnow) {
  Options options = Fast();
  options.extra_create_metadata = true;
  options.group_name_prefix = "set";
  options.group_name_uuid_length = 6;
  BeginGroups({}, options);
  cluster_.client.Add(MakeGroupClass(
      "keyed", {{"parameters",
                 {{"speed", "high"}, {"csi.storage.k8s.io/group-snapshotter-secret-name", "x"}}}}));
  cluster_.client.Add({{"apiVersion", "v1"},
                       {"kind", "Secret"},
                       {"metadata", {{"name", "key"}, {"namespace", "vault"}}},
                       {"data", {{"password", "c2VjcmV0"}}}});
  AddGroup({{"metadata",
             {{"annotations", {{kGroupSecretName, "key"}, {kGroupSecretNamespace, "vault"}}}}},
            {"spec", {{"volumeGroupSnapshotClassName", "keyed"}}}});
  ASSERT_TRUE(WaitGroupReady());
  const auto request = script().LastRequest<CreateGroup>("CreateVolumeGroupSnapshot");
  EXPECT_EQ(request.name(), "set-uidnig");
  EXPECT_THAT(request.secrets(), ElementsAre(Pair("password", "secret")));
  EXPECT_EQ(request.parameters().at("speed"), "high");
  EXPECT_EQ(request.parameters().at("csi.storage.k8s.io/volumegroupsnapshot/name"), "nightly");
  EXPECT_EQ(request.parameters().at("csi.storage.k8s.io/volumegroupsnapshotcontent/name"),
            kGroupContent);
  EXPECT_THAT(request.parameters(), SizeIs(4));
}

TEST_F(GroupSnapshotterTest, AGroupThatIsBeingUploadedIsAskedAboutUntilItIsReady) {
  rpc::FakeCsiDriver::Options driver;
  driver.snapshot_uploads = 3;
  BeginGroups(driver);
  AddGroup();
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(script().Count("CreateVolumeGroupSnapshot"), 4);
  EXPECT_THAT(Groups(), SizeIs(1));
}

TEST_F(GroupSnapshotterTest, ARefusalIsToldAndNothingIsLeftToAskFor) {
  BeginGroups({}, Slow());
  script().Fail("CreateVolumeGroupSnapshot",
                base::Error(StatusCode::kInvalidArgument, "no such thing"));
  AddGroup();
  ASSERT_TRUE(WaitGroupError("code = InvalidArgument desc = no such thing"));
  EXPECT_FALSE(GetGroup().has_annotation(kGroupBeingCreated));
  EXPECT_FALSE(GetGroup().ready());
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotCreationFailed"));
  // Its own write of the error does not shorten the backoff; its class does.
  cluster_.client.Add(MakeGroupClass("group", {{"parameters", {{"speed", "high"}}}}));
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(GetGroup().error(), "");
  EXPECT_EQ(script().Count("CreateVolumeGroupSnapshot"), 2);
}

TEST_F(GroupSnapshotterTest, AnAttemptAfterAFailureIsToldInOtherWordsAsByGo) {
  BeginGroups();
  script().Fail("CreateVolumeGroupSnapshot", base::Error(StatusCode::kAborted, "still busy"),
                rpc::CallScript::kAlways);
  AddGroup();
  ASSERT_TRUE(
      WaitGroupError("Failed to check and update group snapshot content: failed to take "
                     "group snapshot of the volumes ["));
  EXPECT_THAT(GetGroup().error(),
              testing::EndsWith("]: \"rpc error: code = Aborted desc = still busy\""));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotCreationFailed"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotContentCheckandUpdateFailed"));
}

TEST_F(GroupSnapshotterTest, AnUnknownOutcomeIsAskedForUntilItIsKnownAlthoughTheContentGoes) {
  BeginGroups();
  script().LoseAnswer("CreateVolumeGroupSnapshot", CallScript::kAlways);
  AddGroup(kGroupDeleted);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetGroup().error().empty(); }));
  EXPECT_EQ(GetGroup().annotation(kGroupBeingCreated), "yes");
  DeleteGroup();
  ASSERT_TRUE(script().WaitFor("CreateVolumeGroupSnapshot",
                               script().Count("CreateVolumeGroupSnapshot") + 2));
  EXPECT_EQ(GetGroup().annotation(kGroupBeingCreated), "yes");
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 0);
  script().LoseAnswer("CreateVolumeGroupSnapshot", 0);
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 1);
  EXPECT_THAT(Groups(), IsEmpty());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

TEST_F(GroupSnapshotterTest, AProcessThatEndedAfterTheCallFindsWhatItMade) {
  BeginGroups();
  const std::string made = AddGroupToDriver("groupsnapshot-uid-nightly").group_snapshot_id();
  // The process ended before it wrote the handle, and the group was deleted meanwhile.
  AddGroup(Merged(kGroupDeleted, {{"metadata",
                                   {{"deletionTimestamp", "2026-01-01T00:00:00Z"},
                                    {"annotations", {{kGroupBeingCreated, "yes"}}}}}}));
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_EQ(script()
                .LastRequest<csi::v1::DeleteVolumeGroupSnapshotRequest>("DeleteVolumeGroupSnapshot")
                .group_snapshot_id(),
            made);
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(GroupSnapshotterTest, AFinalFailureAfterAnUnknownOneEndsTheRecordAndLetsTheContentGo) {
  BeginGroups();
  const auto refuse = [&](StatusCode code) {
    script().Fail("CreateVolumeGroupSnapshot", base::Error(code, "said the driver"),
                  CallScript::kAlways);
  };
  refuse(StatusCode::kDeadlineExceeded);
  AddGroup(kGroupDeleted);
  ASSERT_TRUE(WaitGroupError("code = DeadlineExceeded"));
  DeleteGroup();
  ASSERT_TRUE(script().WaitFor("CreateVolumeGroupSnapshot",
                               script().Count("CreateVolumeGroupSnapshot") + 2));
  EXPECT_EQ(GetGroup().annotation(kGroupBeingCreated), "yes");
  refuse(StatusCode::kAlreadyExists);
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 0);
}

TEST_F(GroupSnapshotterTest, AMarkThatIsLeftOnAReadyGroupIsRemovedWithoutACall) {
  BeginGroups();
  AddGroup({{"metadata", {{"annotations", {{kGroupBeingCreated, "yes"}}}}},
            {"status",
             {{"volumeGroupSnapshotHandle", AddGroupToDriver().group_snapshot_id()},
              {"readyToUse", true}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetGroup().has_annotation(kGroupBeingCreated); }));
  EXPECT_TRUE(GetGroup().ready());
  EXPECT_EQ(script().Count("CreateVolumeGroupSnapshot"), 0);
}

TEST_F(GroupSnapshotterTest, AContentThatAPersonDeletedIsTakenNeverthelessAndKept) {
  rpc::FakeCsiDriver::Options driver;
  driver.snapshot_uploads = 2;
  BeginGroups(driver);
  AddGroup({{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}});
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 0);
  ASSERT_TRUE(kube::MergePatch(cluster_.client, GetGroup(), kGroupDeleted).ok());
  EXPECT_TRUE(WaitGroupGone());
}

TEST_F(GroupSnapshotterTest, AnErrorStandsInTheStatusUntilTheGroupIsReady) {
  std::atomic<bool> uploaded = false;
  rpc::FakeCsiDriver::Options driver;
  driver.on_group = [&](csi::v1::CreateVolumeGroupSnapshotResponse& response) {
    response.mutable_group_snapshot()->set_ready_to_use(uploaded);
  };
  BeginGroups(driver);
  AddGroup();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetGroup().group_handle().empty(); }));
  script().Fail("CreateVolumeGroupSnapshot", base::Error(StatusCode::kInternal, "no"));
  ASSERT_TRUE(WaitGroupError("Failed to check and update group snapshot content: failed to take"));
  EXPECT_EQ(cluster_.events.Count("GroupSnapshotCreationFailed"), 0);
  const int asked = script().Count("CreateVolumeGroupSnapshot");
  ASSERT_TRUE(script().WaitFor("CreateVolumeGroupSnapshot", asked + 2));
  EXPECT_NE(GetGroup().error(), "");
  uploaded = true;
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(GetGroup().error(), "");
}

TEST_F(GroupSnapshotterTest, AGroupThatLacksASnapshotIsRefused) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_group = [](csi::v1::CreateVolumeGroupSnapshotResponse& response) {
    response.mutable_group_snapshot()->mutable_snapshots()->RemoveLast();
  };
  BeginGroups(driver);
  AddGroup();
  ASSERT_TRUE(WaitGroupError("the driver gave 1 snapshots in group snapshot"));
  EXPECT_EQ(GetGroup().annotation(kGroupBeingCreated), "yes");
  EXPECT_EQ(GetGroup().group_handle(), "");
}

TEST_F(GroupSnapshotterTest, AGroupThatLacksSnapshotsIsDeletedWithWhatTheDriverMade) {
  std::atomic<size_t> made = 0;
  rpc::FakeCsiDriver::Options driver;
  driver.cut_volumes = [&](std::vector<std::string> volumes) {
    volumes.resize(made);
    return volumes;
  };
  BeginGroups(driver);
  for (made = 0; made < 2; ++made) {
    SCOPED_TRACE(made);
    const int calls = script().Count("DeleteVolumeGroupSnapshot");
    AddGroup(kGroupDeleted);
    ASSERT_TRUE(WaitGroupError(fmt::format("the driver gave {} snapshots", made.load())));
    DeleteGroup();
    ASSERT_TRUE(WaitGroupGone());
    EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), calls + 1);
    EXPECT_THAT(Groups(), IsEmpty());
    EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
  }
}

// Two PersistentVolumes show one volume, of which the driver takes one snapshot.
TEST_F(GroupSnapshotterTest, AGroupWithOneVolumeTwiceIsTakenAndDeleted) {
  rpc::FakeCsiDriver::Options driver;
  driver.cut_volumes = [](std::vector<std::string> volumes) {
    volumes.pop_back();
    return volumes;
  };
  BeginGroups(driver);
  cluster_.client.Add(MakeGroupContent("nightly", {handle_, other_, handle_}, kGroupDeleted));
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_THAT(GetGroup().snapshot_infos(), SizeIs(2));
  DeleteGroup();
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(GroupSnapshotterTest, AGroupThatExistsIsLookedUp) {
  BeginGroups();
  const csi::v1::VolumeGroupSnapshot old = AddGroupToDriver();
  const std::string one = old.snapshots(0).snapshot_id();
  const std::string two = old.snapshots(1).snapshot_id();
  AddGroup(ExistingGroup(old.group_snapshot_id(), {one, two}));
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(GetGroup().group_handle(), old.group_snapshot_id());
  EXPECT_THAT(GetGroup().snapshot_infos(), IsEmpty());
  EXPECT_THAT(script()
                  .LastRequest<csi::v1::GetVolumeGroupSnapshotRequest>("GetVolumeGroupSnapshot")
                  .snapshot_ids(),
              ElementsAre(one, two));
  EXPECT_EQ(script().Count("CreateVolumeGroupSnapshot"), 0);
}

TEST_F(GroupSnapshotterTest, AGroupThatDoesNotExistIsToldSo) {
  BeginGroups();
  AddGroup(ExistingGroup("lost", {"snap-1"}));
  ASSERT_TRUE(WaitGroupError("group 'lost' does not exist"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotContentCheckandUpdateFailed"));
}

TEST_F(GroupSnapshotterTest, DeletesTheGroupWithItsSnapshotsByPolicyOnly) {
  for (const char* policy : {"Delete", "Retain"}) {
    SCOPED_TRACE(policy);
    if (cluster_.driver == nullptr) BeginGroups();
    const int calls = script().Count("DeleteVolumeGroupSnapshot");
    AddGroup({{"spec", {{"deletionPolicy", policy}}}});
    ASSERT_TRUE(WaitGroupReady());
    DeleteGroup();
    // A person deleted it by mistake: nothing happens before the controller says so.
    EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), calls);
    ASSERT_TRUE(kube::MergePatch(cluster_.client, GetGroup(), kGroupDeleted).ok());
    ASSERT_TRUE(WaitGroupGone());
    const bool deletes = std::string_view(policy) == "Delete";
    EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), calls + (deletes ? 1 : 0));
    EXPECT_THAT(Groups(), SizeIs(deletes ? 0 : 1));
  }
}

TEST_F(GroupSnapshotterTest, AMarkedGroupIsNotTakenAnewAfterItsDeletionWasInterrupted) {
  BeginGroups();
  const csi::v1::VolumeGroupSnapshot old = AddGroupToDriver();
  script().Hang("DeleteVolumeGroupSnapshot");
  Json infos = Json::array();
  for (const auto& snapshot : old.snapshots()) {
    infos.push_back({{"volumeHandle", snapshot.source_volume_id()},
                     {"snapshotHandle", snapshot.snapshot_id()}});
  }
  AddGroup({{"metadata",
             {{"deletionTimestamp", "2026-01-01T00:00:00Z"},
              {"annotations", {{kGroupBeingDeleted, "yes"}, {kGroupBeingCreated, "yes"}}}}},
            {"status",
             {{"volumeGroupSnapshotHandle", old.group_snapshot_id()},
              {"volumeSnapshotInfoList", infos}}}});
  ASSERT_TRUE(script().WaitFor("DeleteVolumeGroupSnapshot"));
  // The write that removes the finalizer fails after the handle was removed.
  cluster_.client.FailNext("patch", "volumegroupsnapshotcontents",
                           base::Error(StatusCode::kAborted, "conflict"));
  script().Release("DeleteVolumeGroupSnapshot");
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_EQ(script().Count("CreateVolumeGroupSnapshot"), 0);
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 1);
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(GroupSnapshotterTest, ANewHandleComesWithTheSnapshotsOfItsGroup) {
  BeginGroups();
  AddGroup({{"status",
             {{"volumeSnapshotInfoList",
               {{{"volumeHandle", handle_}, {"snapshotHandle", "of-a-deleted-group"}}}}}}});
  ASSERT_TRUE(WaitGroupReady());
  ASSERT_THAT(GetGroup().snapshot_infos(), SizeIs(2));
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(),
              ElementsAre(GetGroup().snapshot_infos()[0]["snapshotHandle"],
                          GetGroup().snapshot_infos()[1]["snapshotHandle"]));
}

TEST_F(GroupSnapshotterTest, AFailedDeletionIsTriedAgain) {
  BeginGroups();
  AddGroup(kGroupDeleted);
  ASSERT_TRUE(WaitGroupReady());
  script().Fail("DeleteVolumeGroupSnapshot", base::Error(StatusCode::kInternal, "disk on fire"), 2);
  DeleteGroup();
  ASSERT_TRUE(WaitGroupGone());
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotDeleteError"));
  EXPECT_EQ(script().Count("DeleteVolumeGroupSnapshot"), 3);
  EXPECT_THAT(Groups(), IsEmpty());
}

TEST_F(GroupSnapshotterTest, AMemberThatIsBeingUploadedIsAskedAboutAndNeverTakenByItself) {
  BeginGroups();
  const csi::v1::VolumeGroupSnapshot old = AddGroupToDriver();
  Add({{"metadata", {{"annotations", {{kGroupHandle, old.group_snapshot_id()}}}}},
       {"status",
        {{"snapshotHandle", old.snapshots(0).snapshot_id()},
         {"volumeGroupSnapshotHandle", old.group_snapshot_id()},
         {"readyToUse", false}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(script().Count("CreateSnapshot"), 0);
  // Its content goes without a call, because the snapshot goes with the group.
  Write(kContent, kDeleted);
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), SizeIs(2));
}

TEST_F(GroupSnapshotterTest, ASnapshotThatExistsIsKnownToBeOfAGroup) {
  BeginGroups();
  const csi::v1::VolumeGroupSnapshot old = AddGroupToDriver();
  Add(Existing(old.snapshots(1).snapshot_id()));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().group_handle(), old.group_snapshot_id());
}

TEST_F(GroupSnapshotterTest, APersonsContentThatNamesItsGroupIsLookedUp) {
  BeginGroups();
  const csi::v1::VolumeGroupSnapshot old = AddGroupToDriver();
  const std::string handle = old.snapshots(1).snapshot_id();
  Add(Merged(Existing(handle),
             {{"metadata", {{"annotations", {{kGroupHandle, old.group_snapshot_id()}}}}}}));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot_handle(), handle);
  EXPECT_EQ(Get().group_handle(), old.group_snapshot_id());
  EXPECT_EQ(script().Count("CreateSnapshot"), 0);
}

TEST_F(SnapshotterTest, WithoutTheKindsOfGroupsSnapshotsAreTaken) {
  Begin();
  Add();
  EXPECT_TRUE(WaitReady());
}

}  // namespace
}  // namespace berth::controllers::snapshotter
