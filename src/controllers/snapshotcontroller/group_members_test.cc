// The VolumeSnapshots of a group: how they are named, what is said when they cannot be made, and
// when they go.
#include "controllers/snapshotcontroller/group_members.h"

#include "controllers/snapshotcontroller/group_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {
namespace {

using ::testing::HasSubstr;

// Groups whose contents a person makes for one group snapshot of the driver, "group-7".
class ImportedGroupTest : public GroupControllerTest {
 protected:
  // The content that is left of a group that is gone (policy Retain). Its name is the first.
  void AddKeptContent() {
    cluster_.client.Add(
        Merged(MakeGroupContent("gone", {}, ExistingGroup("group-7", {"snap-7"})),
               {{"metadata", {{"name", "a-kept"}}},
                {"spec",
                 {{"deletionPolicy", "Retain"}, {"volumeGroupSnapshotRef", {{"uid", "uid-gone"}}}}},
                {"status", Known()}}));
  }
  void ImportGroup() {
    cluster_.client.Add(
        Merged(MakeGroupContent("nightly", {}, ExistingGroup("group-7", {"snap-7"})),
               {{"metadata", {{"name", "by-hand"}}}, {"status", Known()}}));
    AddGroup(
        {{"spec",
          {{"source", {{"selector", nullptr}, {"volumeGroupSnapshotContentName", "by-hand"}}}}}});
  }
  void ImportMember() {
    Json content = MakeContent("monday", "", Existing("snap-7"));
    content["metadata"]["name"] = "member-by-hand";
    content["status"] = {{"snapshotHandle", "snap-7"},
                         {"volumeGroupSnapshotHandle", "group-7"},
                         {"readyToUse", true}};
    cluster_.Put(content);
    Add({{"spec",
          {{"source",
            {{"persistentVolumeClaimName", nullptr},
             {"volumeSnapshotContentName", "member-by-hand"}}}}}});
  }
  static Json Known() { return {{"volumeGroupSnapshotHandle", "group-7"}, {"readyToUse", true}}; }
};

TEST_F(ImportedGroupTest, AMemberHasTheNameOfTheGroupThatWasImportedNotOfTheOneThatIsGone) {
  AddKeptContent();
  Begin();
  ImportGroup();
  ASSERT_TRUE(WaitGroupReady());
  ImportMember();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().group_name().empty(); }));
  EXPECT_EQ(Get().group_name(), "nightly");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return OwningGroup(Get()) == "nightly"; }));
}

TEST_F(ImportedGroupTest, AMemberThatWasImportedBeforeItsGroupGetsTheGroupsName) {
  AddKeptContent();
  Begin(Slow());
  ImportMember();
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().group_name(), "");
  ImportGroup();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return OwningGroup(Get()) == "nightly"; }));
  EXPECT_EQ(Get().group_name(), "nightly");
}

TEST_F(GroupControllerTest, AGroupWhoseSnapshotsMayNotBeMadeSaysSoOnce) {
  Begin();
  AddGroup();
  ASSERT_TRUE(WaitGroupContent());
  for (int i = 0; i < 3; ++i) {
    cluster_.client.FailNext("create", "volumesnapshots",
                             base::Error(StatusCode::kPermissionDenied, "the quota is used up"));
  }
  Write(GetGroupContent(), TakenGroup(), "status");
  ASSERT_TRUE(cluster_.events.WaitFor("Warning GroupSnapshotMemberCreationFailed default/nightly"));
  ASSERT_TRUE(WaitGroupReady());
  ASSERT_TRUE(WaitMembersReady());
  EXPECT_EQ(GetGroup().error(), "");
  EXPECT_EQ(cluster_.events.Count("Warning GroupSnapshotMemberCreationFailed"), 1);
  EXPECT_TRUE(cluster_.events.WaitFor("the quota is used up"));
}

TEST_F(GroupControllerTest, TheMetricsTellHowLongGroupsTake) {
  TakeGroup();
  const auto counted = [&](const char* operation) {
    return cluster_.WaitUntil([&] {
      return cluster_.metrics.RenderText().find(fmt::format(
                 "operation_total_seconds_count{{driver_name=\"fake.csi.example.com\","
                 "operation_name=\"{}\",operation_status=\"success\",snapshot_type=\"dynamic\"}} "
                 "1\n",
                 operation)) != std::string::npos;
    });
  };
  EXPECT_TRUE(counted("CreateGroupSnapshot"));
  EXPECT_TRUE(counted("CreateGroupSnapshotAndReady"));
  DeleteGroup();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetGroupContent().deleting(); }));
  Release(GetGroupContent());
  EXPECT_TRUE(counted("DeleteGroupSnapshot"));
}

// The kinds of groups are served only as v1beta2, or were taken away: each group is "not found".
TEST_F(SnapshotControllerTest, AMemberStaysWhereItsGroupCannotBeSeen) {
  const Json group = {{"apiVersion", "groupsnapshot.storage.k8s.io/v1beta2"},
                      {"kind", "VolumeGroupSnapshot"},
                      {"name", "nightly"},
                      {"uid", "uid-nightly"}};
  cluster_.client.StopServing(Group::kInfo);
  Begin();
  Add({{"metadata",
        {{"finalizers", {kInGroupProtection}}, {"ownerReferences", Json::array({group})}}},
       {"status", {{"volumeGroupSnapshotName", "nightly"}}}});
  Delete();
  ASSERT_TRUE(cluster_.events.WaitFor("Warning SnapshotDeletePending default/monday"));
  EXPECT_TRUE(cluster_.events.WaitFor("it is not known whether the group is gone"));
  EXPECT_TRUE(Get().has_finalizer(kInGroupProtection));
  ServeGroups(cluster_.client);
  EXPECT_TRUE(WaitGone());
}

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
