// What is mounted is recognised by what it is, not by where it is; and what lies on the node is
// known although its record is not (docs/design.md, rules 2 and 7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/volumes/fake_volume_world.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using World = FakeVolumeWorld;

class VolumeIdentity : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.AddBoundClaim("x");
    ASSERT_TRUE(world_.Start().ok());
    world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
    ASSERT_TRUE(world_.WaitReady("uid-a"));
    ASSERT_TRUE(world_.WaitRecorded());
  }

  std::string Staged() const { return world_.shared->DevicePath({.device_name = Device()}); }
  static std::string Device() { return World::Device("x"); }
  void PutAnotherMountThere() {
    ASSERT_TRUE(world_.host->mounter()
                    .Mount({.source = "/dev/stale", .target = Staged(), .fs_type = "xfs"})
                    .ok());
  }
  void ExpectRefused(const std::string& uid) {
    EXPECT_TRUE(world_.WaitReason(uid, "another mount (xfs from '/dev/stale') stands at"));
    EXPECT_EQ(world_.shared->CallCount("SetUp " + uid), 0U);
    EXPECT_FALSE(world_.manager->State(uid).ready);
  }

  World world_{{}};
};

TEST_F(VolumeIdentity, AnotherMountInTheStagedOnesPlaceIsGivenToNoPod) {
  PutAnotherMountThere();
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  ExpectRefused("uid-b");
  // Who looked at it takes it away, and what is below is the volume's.
  ASSERT_TRUE(world_.host->mounter().Unmount(Staged()).ok());
  EXPECT_TRUE(world_.WaitReady("uid-b"));
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 1U);
}

TEST_F(VolumeIdentity, AStagedMountThatIsGoneIsMadeAgainForTheNextPod) {
  ASSERT_TRUE(world_.host->mounter().Unmount(Staged()).ok());
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-b"));
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 2U);
  EXPECT_TRUE(world_.host->fake_mounter().IsMounted(Staged()));
}

TEST_F(VolumeIdentity, TheNextAgentKnowsTheStagedMountToo) {
  world_.StopManager();
  PutAnotherMountThere();
  ASSERT_TRUE(world_.Start().ok());
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  ExpectRefused("uid-b");
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 1U);
}

// The mount that an agent finds at staging may be gone with the pods that it was made for, and the
// next one is another: neither is missed, nor taken for a stranger's.
TEST(VolumeMountedWithItsPods, ComesAndGoesWithThemAlsoAfterARestart) {
  World world{{.mounts_with_pods = true}};
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  const std::string staged = world.shared->DevicePath({.device_name = World::Device("x")});
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  ASSERT_TRUE(world.WaitRecorded());
  EXPECT_TRUE(world.host->fake_mounter().IsMounted(staged));
  world.Restart();
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(world.WaitReady("uid-b"));
  ASSERT_TRUE(world.WaitRecorded());
  // One that waits keeps the device while all that have it go.
  world.shared->FailAll("SetUp", base::Error(base::StatusCode::kUnavailable, "not now"));
  world.manager->WantVolumes(world.ClaimPod("c", "x"));
  ASSERT_TRUE(world.WaitReason("uid-c", "not now"));
  world.manager->ReleaseVolumes("uid-a");
  world.manager->ReleaseVolumes("uid-b");
  ASSERT_TRUE(world.WaitReleased("uid-a"));
  ASSERT_TRUE(world.WaitReleased("uid-b"));
  EXPECT_FALSE(world.host->fake_mounter().IsMounted(staged));
  world.shared->FailAll("SetUp", base::OkStatus());
  ASSERT_TRUE(world.WaitReady("uid-c"));
  world.manager->WantVolumes(world.ClaimPod("d", "x"));
  EXPECT_TRUE(world.WaitReady("uid-d"));
  EXPECT_EQ(world.shared->CallCount("UnmountDevice"), 0U);
}

// As a record of another boot has it, which numbers its mounts anew: `change` makes it so.
void ChangeRecord(const World& world, const std::string& records,
                  const std::function<void(Json& record)>& change) {
  const auto names = world.RecordFiles(records);
  ASSERT_EQ(names.size(), 1U);
  const std::string path = world.RecordFolder(records) + "/" + names.front();
  Json record = *base::json::Parse(*platform::ReadFile(path));
  record["bootId"] = "another";
  change(record);
  ASSERT_TRUE(platform::WriteDurably<"test.file">(path, record.dump()).ok());
}

TEST_F(VolumeIdentity, WhatWasStagedBeforeARebootSaysNothing) {
  world_.StopManager();
  ChangeRecord(world_, "devices", [](Json& record) { record["mount"]["id"] = 1; });
  ASSERT_TRUE(world_.Start().ok());
  world_.manager->WantVolumes(world_.ClaimPod("b", "x"));
  EXPECT_TRUE(world_.WaitReady("uid-b"));
}

TEST_F(VolumeIdentity, WhatWasPublishedBeforeARebootIsNotTakenForWhatHasItsNumbersNow) {
  world_.StopManager();
  ChangeRecord(world_, "pods", [](Json&) {});
  ASSERT_TRUE(world_.Start().ok());
  world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-a"));
  EXPECT_EQ(world_.shared->CallCount("SetUp"), 2U);
}

// ---- lost records ----

class LostRecords : public VolumeIdentity {
 protected:
  // The manager ends, and its records go; what the plugin left on the node stays.
  void LoseRecords() {
    world_.StopManager();
    ASSERT_TRUE(platform::RemoveTree(world_.RecordFolder("devices")).ok());
    ASSERT_TRUE(platform::RemoveTree(world_.RecordFolder("pods")).ok());
    const std::string plugin(world_.shared->name());
    world_.shared->SetFound({.devices = {{.plugin = plugin, .device_name = Device()}},
                             .pod_volumes = {{.plugin = plugin,
                                              .device_name = Device(),
                                              .pod_uid = "uid-a",
                                              .folder_name = "pv-x",
                                              .state = Json::object()}}});
  }
};

TEST_F(LostRecords, KeepTheVolumeInUseUntilItIsTornDown) {
  ASSERT_TRUE(world_.WaitInUse({Device()}));
  LoseRecords();
  ASSERT_TRUE(world_.Start().ok());
  EXPECT_TRUE(world_.host->fake_events().WaitFor({"Node node-a Warning VolumeRecordLost", "pv-x"}));
  // The pod is gone from the API; another's coming makes the list anew.
  EXPECT_THAT(world_.manager->KnownPods(), ElementsAre("uid-a"));
  world_.AddBoundClaim("y");
  world_.manager->WantVolumes(world_.ClaimPod("b", "y"));
  ASSERT_TRUE(world_.WaitReady("uid-b"));
  EXPECT_TRUE(world_.WaitInUse({Device(), World::Device("y")}));
  EXPECT_EQ(world_.shared->CallCount("TearDown"), 0U);
  world_.shared->SetFound({});
  world_.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world_.WaitReleased("uid-a"));
  EXPECT_TRUE(world_.WaitInUse({World::Device("y")}));
  EXPECT_THAT(world_.shared->Mounted(), UnorderedElementsAre(World::Device("y"), "uid-b/pv-y"));
}

TEST_F(LostRecords, OfAPodThatIsStillThereAreWrittenAgain) {
  LoseRecords();
  ASSERT_TRUE(world_.Start().ok());
  world_.manager->WantVolumes(world_.ClaimPod("a", "x"));
  ASSERT_TRUE(world_.WaitReady("uid-a"));
  ASSERT_TRUE(world_.WaitRecorded());
  world_.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world_.WaitReleased("uid-a"));
  EXPECT_TRUE(world_.WaitInUse({}));
  EXPECT_THAT(world_.shared->Mounted(), IsEmpty());
  EXPECT_THAT(world_.RecordFiles("devices"), IsEmpty());
}

// What a pod mounted inside its volume goes with the pod; what is mounted beneath a folder of the
// host (hostPath) is the host's, and other pods'.
TEST(VolumeOfTheHost, KeepsWhatIsMountedBeneathIt) {
  for (const std::string host_folder : {"", "/srv"}) {
    SCOPED_TRACE(host_folder);
    World world({});
    world.AddBoundClaim("x");
    world.shared->SetHostFolder(host_folder);
    ASSERT_TRUE(world.Start().ok());
    world.manager->WantVolumes(world.ClaimPod("a", "x"));
    ASSERT_TRUE(world.WaitReady("uid-a"));
    ASSERT_TRUE(world.WaitRecorded());
    const std::string beneath = world.manager->State("uid-a").published.at("data").path + "/more";
    ASSERT_TRUE(world.host->mounter()
                    .Mount({.source = "tmpfs", .target = beneath, .fs_type = "tmpfs"})
                    .ok());
    world.manager->ReleaseVolumes("uid-a");
    ASSERT_TRUE(world.WaitReleased("uid-a"));
    EXPECT_EQ(world.host->fake_mounter().IsMounted(beneath), !host_folder.empty());
  }
}

}  // namespace
}  // namespace berth::node
