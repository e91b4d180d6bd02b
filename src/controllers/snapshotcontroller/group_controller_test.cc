#include "controllers/snapshotcontroller/group_controller.h"

#include "controllers/snapshotcontroller/group_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// With a group and the content "by-hand", which a person wrote for a group of the driver.
class ExistingGroupTest : public GroupControllerTest {
 protected:
  void BindByHand() {
    cluster_.client.Add(
        Merged(MakeGroupContent("nightly", {}, ExistingGroup("group-7", {"snap-7"})),
               {{"metadata", {{"name", "by-hand"}}}}));
    Begin();
    AddGroup(
        {{"spec",
          {{"source", {{"selector", nullptr}, {"volumeGroupSnapshotContentName", "by-hand"}}}}}});
    ASSERT_TRUE(cluster_.WaitUntil(
        [&] { return GetGroupContent("by-hand").group_uid() == "uid-nightly"; }));
    Write(GetGroupContent("by-hand"),
          {{"status", {{"volumeGroupSnapshotHandle", "group-7"}, {"readyToUse", true}}}}, "status");
    ASSERT_TRUE(WaitGroupReady());
  }
};

TEST_F(GroupControllerTest, TakesTheVolumesOfTheSelectedClaims) {
  Begin();
  AddGroup();
  ASSERT_TRUE(WaitGroupContent());
  const GroupContent content = GetGroupContent();
  EXPECT_THAT(content.source_volume_handles(), ElementsAre("handle-pv-1", "handle-pv-2"));
  EXPECT_EQ(content.driver(), "fake.csi.example.com");
  EXPECT_EQ(content.deletion_policy(), "Delete");
  EXPECT_EQ(content.class_name(), "group");
  EXPECT_EQ(content.group_uid(), "uid-nightly");
  EXPECT_TRUE(content.has_finalizer(kGroupContentProtection));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetGroup().content_name() == kGroupContent; }));
  EXPECT_TRUE(GetGroup().has_finalizer(kGroupBoundProtection));
  EXPECT_FALSE(GetGroup().ready());
  EXPECT_TRUE(cluster_.events.WaitFor("Normal CreatingGroupSnapshot default/nightly"));
  EXPECT_THAT(Members(), IsEmpty());
}

TEST_F(GroupControllerTest, TheMembersHaveTheNamesAndAnnotationsOfTheGoProgram) {
  TakeGroup();
  EXPECT_EQ(GetGroup().creation_time(), "2026-01-01T00:00:01Z");
  EXPECT_TRUE(cluster_.events.WaitFor("Normal GroupSnapshotCreated default/nightly"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal GroupSnapshotReady default/nightly"));
  ASSERT_THAT(Members(), SizeIs(2));
  const Snapshot member = GetMember("pv-2");
  EXPECT_EQ(member.source_claim(), "log");
  EXPECT_EQ(member.content_name(), "snapcontent-" + Hash("pv-2"));
  EXPECT_EQ(member.restore_size(), "1Gi");
  EXPECT_EQ(member.error(), "");
  EXPECT_EQ(member.json()["metadata"]["ownerReferences"],
            Json::array({{{"apiVersion", "groupsnapshot.storage.k8s.io/v1"},
                          {"kind", "VolumeGroupSnapshot"},
                          {"name", "nightly"},
                          {"uid", "uid-nightly"}}}));
  EXPECT_TRUE(
      member.has_finalizer("snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection"));
  const Content content = GetMemberContent("pv-2");
  EXPECT_EQ(content.annotation("groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"),
            "group-1");
  EXPECT_EQ(content.snapshot_uid(), member.uid());
  EXPECT_EQ(content.source_volume_handle(), "handle-pv-2");
  EXPECT_EQ(content.source_volume_mode(), "Filesystem");
  EXPECT_EQ(content.class_name(), "");
  EXPECT_EQ(content.snapshot_handle(), "snap-pv-2");
  EXPECT_EQ(content.group_handle(), "group-1");
  EXPECT_EQ(content.restore_bytes(), int64_t{1} << 30);
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return GetMemberContent("pv-2").has_finalizer(kContentProtection); }));
}

TEST_F(GroupControllerTest, TheSecretOfTheClassIsThatOfTheGroupAndOfItsMembers) {
  cluster_.client.Add(
      MakeGroupClass("group", {{"parameters",
                                {{"csi.storage.k8s.io/group-snapshotter-secret-name", "key"},
                                 {"csi.storage.k8s.io/group-snapshotter-secret-namespace",
                                  "${volumegroupsnapshot.namespace}"}}}}));
  TakeGroup();
  EXPECT_EQ(
      GetGroupContent().annotation("groupsnapshot.storage.kubernetes.io/deletion-secret-name"),
      "key");
  EXPECT_EQ(
      GetGroupContent().annotation("groupsnapshot.storage.kubernetes.io/deletion-secret-namespace"),
      "default");
  EXPECT_EQ(GetMemberContent("pv-1").annotation(kSnapshotSecretName), "key");
  EXPECT_EQ(GetMemberContent("pv-1").annotation(kSnapshotSecretNamespace), "default");
}

TEST_F(GroupControllerTest, TheDefaultClassOfTheDriverIsWrittenDown) {
  cluster_.client.Add(MakeGroupClass(
      "usual",
      {{"metadata",
        {{"annotations", {{"groupsnapshot.storage.kubernetes.io/is-default-class", "true"}}}}}}));
  TakeGroup({{"spec", {{"volumeGroupSnapshotClassName", nullptr}}}});
  EXPECT_EQ(GetGroup().class_name(), "usual");
  EXPECT_EQ(GetGroupContent().class_name(), "usual");
}

TEST_F(GroupControllerTest, WhatCannotBeTakenIsToldAndTakenOnceItCan) {
  Begin();
  AddGroup({{"spec", {{"volumeGroupSnapshotClassName", "late"}}}});
  ASSERT_TRUE(
      WaitGroupError("failed to get group snapshot class with error "
                     "volumegroupsnapshotclass.groupsnapshot.storage.k8s.io \"late\" not found"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GetGroupSnapshotClassFailed"));
  EXPECT_FALSE(GetGroup().json()["status"].contains("readyToUse")) << "nothing is known of it yet";
  const Json log = cluster_.Get<Claim>("default", "log").json();
  cluster_.Put(Merged(log, {{"status", {{"phase", "Pending"}}}}));
  cluster_.client.Add(MakeGroupClass("late"));
  ASSERT_TRUE(WaitGroupError("the PVC log is not yet bound to a PV"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotContentCreationFailed"));
  cluster_.Put(log);
  EXPECT_TRUE(WaitGroupContent());
}

TEST_F(GroupControllerTest, AClassThatGoesIsToldOnReadyGroupsUntilItIsBack) {
  TakeGroup();
  cluster_.client.Remove(api::VolumeGroupSnapshotClass::kInfo, "", "group");
  ASSERT_TRUE(WaitGroupError("\"group\" not found"));
  EXPECT_TRUE(GetGroup().ready());
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GetGroupSnapshotClassFailed default/nightly"));
  cluster_.client.Add(MakeGroupClass("group"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetGroup().error().empty(); }));
  EXPECT_TRUE(GetGroup().ready());
  EXPECT_TRUE(GetMember("pv-1").ready());
}

TEST_F(ExistingGroupTest, AContentOfAnotherGroupIsNotTakenAlsoOnceTheGroupIsReady) {
  ASSERT_NO_FATAL_FAILURE(BindByHand());
  Write(GetGroupContent("by-hand"), {{"spec", {{"volumeGroupSnapshotRef", {{"uid", "another"}}}}}});
  ASSERT_TRUE(WaitGroupError("[by-hand] is bound to a different group snapshot"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetGroup().ready(); }));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotContentMisbound"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotFinalizerError"));
}

TEST_F(GroupControllerTest, AGroupOfNoClaimIsToldSo) {
  Begin();
  AddGroup({{"spec", {{"source", {{"selector", {{"matchLabels", {{"app", "none"}}}}}}}}}});
  EXPECT_TRUE(WaitGroupError("label selector app=none for group snapshot not applied to any PVC"));
}

TEST_F(GroupControllerTest, ADriversErrorIsTheGroups) {
  Begin();
  AddGroup();
  ASSERT_TRUE(WaitGroupContent());
  Write(GetGroupContent(),
        {{"status", {{"readyToUse", false}, {"error", {{"message", "disk on fire"}}}}}}, "status");
  ASSERT_TRUE(WaitGroupError("disk on fire"));
  EXPECT_FALSE(GetGroup().ready());
  Write(GetGroupContent(), Merged(TakenGroup(), {{"status", {{"error", nullptr}}}}), "status");
  ASSERT_TRUE(WaitGroupReady());
  EXPECT_EQ(GetGroup().error(), "");
}

TEST_F(ExistingGroupTest, APersonsContentIsBound) {
  ASSERT_NO_FATAL_FAILURE(BindByHand());
  EXPECT_EQ(GetGroup().content_name(), "by-hand");
  EXPECT_TRUE(GetGroupContent("by-hand").has_finalizer(kGroupContentProtection));
  // The person makes the members, too, which get the group as their owner.
  Json content = MakeContent("monday", "", Existing("snap-7"));
  content["metadata"]["name"] = "member-by-hand";
  content["status"] = {
      {"snapshotHandle", "snap-7"}, {"volumeGroupSnapshotHandle", "group-7"}, {"readyToUse", true}};
  cluster_.Put(content);
  Add({{"spec",
        {{"source",
          {{"persistentVolumeClaimName", nullptr},
           {"volumeSnapshotContentName", "member-by-hand"}}}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().group_name(), "nightly");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return OwningGroup(Get()) == "nightly"; }));
}

TEST_F(GroupControllerTest, TheDeletionOfAGroupTakesItsContentAndItsMembers) {
  TakeGroup();
  DeleteGroup();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetGroupContent().deleting(); }));
  EXPECT_EQ(GetGroupContent().annotation(kGroupBeingDeleted), "yes");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return GetMember("pv-1").deleting() && GetMember("pv-2").deleting(); }));
  EXPECT_TRUE(GetGroup().has_finalizer(kGroupBoundProtection));
  EXPECT_TRUE(GetMember("pv-1").has_finalizer(kInGroupProtection));
  Release(GetGroupContent());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Group>("default", "nightly"); }));
  for (const char* volume : {"pv-1", "pv-2"}) {
    ASSERT_TRUE(cluster_.WaitUntil([&] { return GetMemberContent(volume).deleting(); }));
    EXPECT_EQ(GetMemberContent(volume).annotation(kBeingDeleted), "yes");
    Release(GetMemberContent(volume));
  }
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Members().empty(); }));
}

TEST_F(GroupControllerTest, APolicyOfRetainKeepsTheContents) {
  cluster_.client.Add(MakeGroupClass("group", {{"deletionPolicy", "Retain"}}));
  TakeGroup();
  DeleteGroup();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Group>("default", "nightly"); }));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Members().empty(); }));
  EXPECT_FALSE(GetGroupContent().deleting());
  EXPECT_EQ(GetGroupContent().annotation(kGroupBeingDeleted), "yes");
  EXPECT_FALSE(GetMemberContent("pv-1").deleting());
  EXPECT_EQ(GetMemberContent("pv-1").annotation(kBeingDeleted), "yes");
}

TEST_F(GroupControllerTest, AMemberGoesOnlyWithItsGroup) {
  TakeGroup();
  const Snapshot member = GetMember("pv-1");
  ASSERT_TRUE(cluster_.client.Delete(Snapshot::kInfo, "default", member.name(), {}).ok());
  EXPECT_TRUE(
      cluster_.events.WaitFor("is not allowed as it belongs to group snapshot default/nightly"));
  EXPECT_FALSE(GetMemberContent("pv-1").deleting());
  EXPECT_TRUE(GetMember("pv-1").ready());
}

TEST_F(GroupControllerTest, AMemberGoesAlthoughANewGroupHasTheNameOfItsOwn) {
  TakeGroup();
  ASSERT_TRUE(cluster_.client.Remove(Group::kInfo, "default", "nightly"));
  AddGroup({{"metadata", {{"uid", "uid-of-the-new"}}}});
  const Snapshot member = GetMember("pv-1");
  ASSERT_TRUE(cluster_.client.Delete(Snapshot::kInfo, "default", member.name(), {}).ok());
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetMemberContent("pv-1").deleting(); }));
  Release(GetMemberContent("pv-1"));
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return !cluster_.Has<Snapshot>("default", member.name()); }));
}

TEST_F(GroupControllerTest, AMemberThatWaitsForItsGroupGoesWhenANewOneReplacesIt) {
  TakeGroup();
  const Snapshot member = GetMember("pv-1");
  ASSERT_TRUE(cluster_.client.Delete(Snapshot::kInfo, "default", member.name(), {}).ok());
  ASSERT_TRUE(cluster_.events.WaitFor("is not allowed as it belongs to group snapshot"));
  // It replaces the group in one change.
  AddGroup({{"metadata", {{"uid", "uid-of-the-new"}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetMemberContent("pv-1").deleting(); }));
}

TEST_F(GroupControllerTest, AMemberThatIsBeingRestoredKeepsTheGroup) {
  TakeGroup();
  const std::string member = GetMember("pv-1").name();
  cluster_.Put(MakeClaim("copy", {{"spec",
                                   {{"dataSource",
                                     {{"apiGroup", "snapshot.storage.k8s.io"},
                                      {"kind", "VolumeSnapshot"},
                                      {"name", member}}}}}}));
  DeleteGroup();
  ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotDeletePending default/nightly"));
  EXPECT_FALSE(GetGroupContent().deleting());
  Write(cluster_.Get<Claim>("default", "copy"), {{"status", {{"phase", "Bound"}}}}, "status");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetGroupContent().deleting(); }));
}

TEST_F(GroupControllerTest, AReadyContentThatTheCopyDoesNotShowYetGetsItsMembers) {
  // The copy of the contents is that of another API, which has none.
  const auto behind = std::make_shared<kube::FakeClient>(cluster_.clock);
  ServeGroups(*behind);
  cluster_.informers.ReadFrom<GroupContent>(behind);
  cluster_.client.Add(MakeGroupContent("nightly", {"handle-pv-1", "handle-pv-2"}, TakenGroup()));
  Begin();
  AddGroup();
  ASSERT_TRUE(WaitGroupReady());
  ASSERT_TRUE(WaitMembersReady());
  EXPECT_THAT(Members(), SizeIs(2));
}

// The parameter: how many steps another process had done when it ended.
class InterruptedGroupTest : public GroupControllerTest,
                             public ::testing::WithParamInterface<int> {};

TEST_P(InterruptedGroupTest, IsFinished) {
  const Json bound = {
      {"metadata", {{"finalizers", {kGroupBoundProtection}}}},
      {"status", {{"boundVolumeGroupSnapshotContentName", kGroupContent}, {"readyToUse", false}}}};
  const int steps = GetParam();
  AddGroup(steps >= 1 ? bound : Json());
  cluster_.client.Add(MakeGroupContent("nightly", {"handle-pv-1", "handle-pv-2"}, TakenGroup()));
  const std::string hash = Hash("pv-1");
  if (steps >= 2) {
    cluster_.Put(
        MakeContent("member", "handle-pv-1",
                    {{"metadata",
                      {{"name", "snapcontent-" + hash},
                       {"annotations", {{kGroupHandle, "group-1"}}},
                       {"finalizers", nullptr}}},
                     {"spec",
                      {{"volumeSnapshotClassName", nullptr},
                       {"volumeSnapshotRef", {{"name", "snapshot-" + hash}, {"uid", nullptr}}}}}}));
  }
  if (steps >= 3) {
    Json member = MakeSnapshot("member");
    member["metadata"]["name"] = "snapshot-" + hash;
    member["metadata"]["finalizers"] = {kInGroupProtection};
    member["metadata"]["ownerReferences"] = Json::array({OwnerReferenceTo(GetGroup())});
    member["spec"] = {{"source", {{"persistentVolumeClaimName", "data"}}}};
    cluster_.Put(member);
  }
  Begin();
  ASSERT_TRUE(WaitGroupReady());
  ASSERT_TRUE(WaitMembersReady());
  EXPECT_THAT(Members(), SizeIs(2));
  EXPECT_EQ(GetMember("pv-1").error(), "");
  EXPECT_EQ(cluster_.events.Count("Warning"), 0);
}

INSTANTIATE_TEST_SUITE_P(Steps, InterruptedGroupTest, ::testing::Range(0, 4));

// A cluster that ran the Go programs: Berth takes over and changes nothing that is ready.
TEST_F(GroupControllerTest, WhatTheGoProgramMadeStaysReady) {
  AddGroup({{"metadata", {{"finalizers", {kGroupBoundProtection}}}},
            {"status",
             {{"boundVolumeGroupSnapshotContentName", kGroupContent},
              {"creationTime", "2026-01-01T00:00:01Z"},
              {"readyToUse", true}}}});
  cluster_.client.Add(MakeGroupContent("nightly", {"handle-pv-1", "handle-pv-2"}, TakenGroup()));
  for (const char* volume : {"pv-1", "pv-2"}) {
    const std::string hash = Hash(volume);
    const std::string uid = fmt::format("uid-of-{}", volume);
    cluster_.Put(
        MakeContent("member", fmt::format("handle-{}", volume),
                    {{"metadata",
                      {{"name", "snapcontent-" + hash},
                       {"annotations",
                        {{"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle", "group-1"}}}}},
                     {"spec",
                      {{"volumeSnapshotClassName", nullptr},
                       {"volumeSnapshotRef",
                        {{"kind", "VolumeSnapshot"}, {"name", "snapshot-" + hash}, {"uid", uid}}}}},
                     {"status",
                      {{"snapshotHandle", fmt::format("snap-{}", volume)},
                       {"volumeGroupSnapshotHandle", "group-1"},
                       {"creationTime", 1767225601000000000},
                       {"restoreSize", 1 << 30},
                       {"readyToUse", true}}}}));
    Json member = MakeSnapshot("member");
    member["metadata"] = {{"name", "snapshot-" + hash},
                          {"namespace", "default"},
                          {"uid", uid},
                          {"finalizers", {kInGroupProtection, kSnapshotSourceProtection}},
                          {"ownerReferences", Json::array({OwnerReferenceTo(GetGroup())})}};
    if (uid == "uid-of-pv-2") {  // as a Go program of the beta made it
      member["metadata"]["ownerReferences"][0]["apiVersion"] =
          "groupsnapshot.storage.k8s.io/v1beta2";
    }
    member["spec"] = {{"source", {{"persistentVolumeClaimName", ""}}}};
    member["status"] = {{"boundVolumeSnapshotContentName", "snapcontent-" + hash},
                        {"creationTime", "2026-01-01T00:00:01Z"},
                        {"restoreSize", "1Gi"},
                        {"volumeGroupSnapshotName", "nightly"},
                        {"readyToUse", true}};
    cluster_.Put(member);
  }
  Options one = Fast();
  one.workers = 1;
  Begin(one);
  // A group and a snapshot after them, of one worker, show that the controller has looked at them.
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  ASSERT_TRUE(WaitReady());
  cluster_.client.Add(MakeGroup("later", {{"spec", {{"volumeGroupSnapshotClassName", "none"}}}}));
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return !cluster_.Get<Group>("default", "later").error().empty(); }));
  EXPECT_TRUE(GetGroup().ready());
  EXPECT_TRUE(GetMember("pv-1").ready());
  EXPECT_TRUE(GetMember("pv-2").ready());
  for (const std::string& action : cluster_.client.ActionNames()) {
    EXPECT_THAT(action, ::testing::AnyOf(HasSubstr("monday"), HasSubstr("later"),
                                         HasSubstr("persistentvolumeclaims")));
  }
  EXPECT_EQ(cluster_.events.Count("Warning"), cluster_.events.Count("default/later"));
}

TEST_F(SnapshotControllerTest, WithoutTheKindsOfGroupsSnapshotsAreTaken) {
  Begin();
  Add();
  ASSERT_TRUE(WaitBound());
  Taken();
  EXPECT_TRUE(WaitReady());
}

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
