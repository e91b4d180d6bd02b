#include "node/volumes/volume_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/volumes/fake_volume_world.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using World = FakeVolumeWorld;

const base::Status kDriverGone = base::Error(StatusCode::kUnavailable, "the driver went away");
const base::Status kFinal = base::Error(StatusCode::kInternal, "the driver refuses");

TEST(VolumeManager, SetsUpAndTearsDownAClaim) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.manager->State("uid-web").published.at("data").path,
            world.host->paths().PodVolume(api::PodUid("uid-web"), "kubernetes.io/csi",
                                          api::VolumeName("pv-x")) +
                "/mount");
  EXPECT_FALSE(world.manager->HasReleased("uid-web"));
  EXPECT_TRUE(world.WaitInUse({World::Device("x")}));

  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(world.shared->Calls(),
              ElementsAre("MountDevice " + World::Device("x"), "SetUp uid-web/pv-x",
                          "TearDown uid-web/pv-x", "UnmountDevice " + World::Device("x")));
  EXPECT_THAT(world.RecordFiles("devices"), IsEmpty());
  EXPECT_THAT(world.RecordFiles("pods"), IsEmpty());
}

TEST(VolumeManager, EveryStepIsRecordedBeforeItIsTaken) {
  World world({});
  world.AddBoundClaim("x");
  std::vector<std::string> seen;
  world.shared->SetObserver([&](const std::string& call) {
    seen.push_back(fmt::format("{}: {} {}", call.substr(0, call.find(' ')),
                               world.RecordFiles("devices").size(),
                               world.RecordFiles("pods").size()));
  });
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(seen,
              ElementsAre("MountDevice: 1 0", "SetUp: 1 1", "TearDown: 1 1", "UnmountDevice: 1 0"));
}

TEST(VolumeManager, PodsShareADeviceAndTheLastOneUnmountsIt) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  ASSERT_TRUE(world.WaitReady("uid-b"));
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world.WaitReleased("uid-a"));
  EXPECT_TRUE(world.manager->State("uid-b").ready);
  EXPECT_EQ(world.shared->CallCount("UnmountDevice"), 0U);
  world.manager->ReleaseVolumes("uid-b");
  ASSERT_TRUE(world.WaitReleased("uid-b"));
  EXPECT_TRUE(world.WaitInUse({}));
  EXPECT_EQ(world.shared->CallCount("MountDevice"), 1U);
  EXPECT_EQ(world.shared->CallCount("UnmountDevice"), 1U);
  EXPECT_THAT(world.shared->Mounted(), IsEmpty());
}

TEST(VolumeManager, ReadWriteOncePodIsForOnePod) {
  World world({});
  world.AddBoundClaim("x", "ReadWriteOncePod");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(world.WaitReason("uid-b", "ReadWriteOncePod and in use by pod 'default/a'"));
  world.manager->ReleaseVolumes("uid-a");
  EXPECT_TRUE(world.WaitReady("uid-b"));
  const auto calls = world.shared->Calls();
  EXPECT_LT(std::find(calls.begin(), calls.end(), "TearDown uid-a/pv-x"),
            std::find(calls.begin(), calls.end(), "SetUp uid-b/pv-x"));
}

TEST(VolumeManager, AFailedSetUpIsToldAndRepeated) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailNext("SetUp", kFinal);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.shared->CallCount("SetUp"), 2U);
  EXPECT_TRUE(world.host->fake_events().WaitFor(
      {"Pod web Warning FailedMount volume 'data': INTERNAL: set it up: the driver refuses"}));
}

TEST(VolumeManager, TheSameFailureIsToldOnce) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailAll("MountDevice", kFinal);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", 4));
  EXPECT_EQ(world.host->fake_events().Count("FailedMount"), 1U);
  EXPECT_TRUE(world.WaitReason("uid-web", "the driver refuses"));
  world.shared->FailAll("MountDevice", base::OkStatus());
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeManager, AVolumeThatNeverCameUpIsCleanedUp) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailAll("SetUp", kDriverGone);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("SetUp", 1));
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_EQ(world.shared->CallCount("TearDown"), 1U);
  EXPECT_EQ(world.shared->CallCount("UnmountDevice"), 1U);
}

TEST(VolumeManager, ATearDownOfUnknownOutcomeKeepsTheVolumeFromANewPod) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  world.shared->FailAll("TearDown", kDriverGone);
  world.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world.shared->WaitForCalls("TearDown", 1));
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(
      world.WaitReason("uid-b", "waiting until the volume is torn down for pod 'default/a'"));
  ASSERT_TRUE(world.shared->WaitForCalls("TearDown", 4));
  EXPECT_EQ(world.shared->CallCount("SetUp uid-b"), 0U);
  EXPECT_FALSE(world.manager->HasReleased("uid-a"));
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Pod a Warning FailedUnmount"}));
  world.shared->FailAll("TearDown", base::OkStatus());
  EXPECT_TRUE(world.WaitReady("uid-b"));
  EXPECT_TRUE(world.manager->HasReleased("uid-a"));
}

TEST(VolumeManager, ATearDownThatSurelyDidNothingDoesNot) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  world.shared->FailAll("TearDown", kFinal);
  world.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world.shared->WaitForCalls("TearDown", 1));
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  EXPECT_TRUE(world.WaitReady("uid-b"));
  EXPECT_FALSE(world.manager->HasReleased("uid-a"));
}

TEST(VolumeManager, AHangingVolumeHoldsUpNoOther) {
  World world({});
  world.AddBoundClaim("x");
  world.AddBoundClaim("y");
  world.shared->Hang("MountDevice", "handle-x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", 1));
  world.manager->WantVolumes(world.ClaimPod("b", "y"));
  EXPECT_TRUE(world.WaitReady("uid-b"));
  EXPECT_FALSE(world.manager->State("uid-a").ready);
  world.shared->Unhang();
  EXPECT_TRUE(world.WaitReady("uid-a"));
}

TEST(VolumeManager, AsManyHangingVolumesAsWorkersHoldUpNoOther) {
  World world({});
  constexpr int kHanging = 4;  // as many as the world's workers
  world.AddBoundClaim("y");
  world.shared->Hang("MountDevice", "handle-hung");
  ASSERT_TRUE(world.Start().ok());
  for (int i = 0; i < kHanging; ++i) {
    const std::string claim = fmt::format("hung{}", i);
    world.AddBoundClaim(claim);
    world.manager->WantVolumes(world.ClaimPod(fmt::format("a{}", i), claim));
  }
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", kHanging));
  world.manager->WantVolumes(world.ClaimPod("b", "y"));
  EXPECT_TRUE(world.WaitReady("uid-b"));
  EXPECT_FALSE(world.manager->State("uid-a0").ready);
  world.shared->Unhang();
  EXPECT_TRUE(world.WaitReady("uid-a0"));
}

TEST(VolumeManager, SaysWhenWhatAVolumeWaitsForHasCome) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->Hang("MountDevice", "handle-x");
  ASSERT_TRUE(world.Start().ok());
  EXPECT_FALSE(world.manager->State("uid-web").begun);
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", 1));
  EXPECT_TRUE(world.manager->State("uid-web").begun);
  world.shared->Unhang();
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_FALSE(world.manager->State("uid-web").begun);
}

TEST(VolumeManager, AVolumeThatFailedHasNotBegun) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailAll("MountDevice", kFinal);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", 3));
  EXPECT_FALSE(world.manager->State("uid-web").begun);
  EXPECT_THAT(world.manager->State("uid-web").reason, testing::HasSubstr("mount it on the node"));
}

TEST(VolumeManager, APodReleasedWhileItsVolumeIsSetUpIsCleanedUp) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->Hang("SetUp", "uid-web");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("SetUp", 1));
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.manager->ReleaseVolumes("uid-web");
  EXPECT_FALSE(world.manager->HasReleased("uid-web"));
  world.shared->Unhang();
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(world.shared->Mounted(), IsEmpty());
}

// ---- attaching ----

TEST(VolumeManager, AVolumeIsMountedOnlyWhenBothSaysItIsAttached) {
  World world({.needs_attach = true});
  world.AddBoundClaim("x");
  std::vector<std::string> listed;
  world.shared->SetObserver([&](const std::string& call) {
    if (call.starts_with("MountDevice")) {
      listed = world.client.Peek<api::Node>("", World::kNode)->volumes_in_use();
    }
  });
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web", "there is no VolumeAttachment 'csi-"));
  // The fence is up before the volume is attached.
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.Attach("x");
  ASSERT_TRUE(world.WaitReason("uid-web", "to appear in status.volumesAttached of node 'node-a'"));
  EXPECT_THAT(world.shared->Calls(), IsEmpty());
  Json node = world.client.Peek(api::kinds::kNode, "", World::kNode);
  node["status"]["volumesAttached"] = {{{"name", World::Device("x")}, {"devicePath", ""}}};
  world.client.Add(node);
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_THAT(listed, ElementsAre(World::Device("x")));
  EXPECT_EQ(world.shared->LastPublishContext().at("lun"), "7");
}

TEST(VolumeManager, WhereTheDriverKeepsItsLimitsANodeWithoutRoomIsToldOf) {
  for (const bool keeps : {true, false}) {
    World world({.needs_attach = true});
    world.AddBoundClaim("x");
    world.Attach("x");
    world.client.Add(
        {{"apiVersion", "storage.k8s.io/v1"},
         {"kind", "CSIDriver"},
         {"metadata", {{"name", World::kDriver}}},
         {"spec", keeps ? Json{{"nodeAllocatableUpdatePeriodSeconds", 60}} : Json::object()}});
    Json attachment = world.client.PeekAll(api::kinds::kVolumeAttachment).front();
    attachment["status"] = {{"attached", false},
                            {"attachError", {{"message", "slots are full"}, {"errorCode", 8}}}};
    world.client.Add(attachment);
    ASSERT_TRUE(world.Start().ok());
    world.manager->WantVolumes(world.ClaimPod("web", "x"));
    ASSERT_TRUE(world.WaitReason("uid-web", "failed: slots are full"));
    EXPECT_EQ(world.manager->State("uid-web").no_room, keeps);
  }
}

TEST(VolumeManager, AnAttachErrorIsTold) {
  World world({.needs_attach = true});
  world.AddBoundClaim("x");
  world.Attach("x");
  Json attachment = world.client.PeekAll(api::kinds::kVolumeAttachment).front();
  attachment["status"] = {{"attached", false}, {"attachError", {{"message", "no such disk"}}}};
  world.client.Add(attachment);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web", "failed: no such disk"));
  EXPECT_TRUE(world.host->fake_events().WaitFor({"FailedAttachVolume", "no such disk"}));
}

TEST(VolumeManager, ANodeThatIsRegisteredAnewListsItsVolumesAgain) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.client.Remove(api::kinds::kNode, "", World::kNode);
  world.client.Add(
      {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", World::kNode}}}});
  EXPECT_TRUE(world.WaitInUse({World::Device("x")}));
}

TEST(VolumeManager, TheListOfVolumesInUseIsRepeatedUntilTheApiTakesIt) {
  World world({.needs_attach = true});
  world.AddBoundClaim("x");
  world.Attach("x");
  Json node = world.client.Peek(api::kinds::kNode, "", World::kNode);
  node["status"]["volumesAttached"] = {{{"name", World::Device("x")}, {"devicePath", ""}}};
  world.client.Add(node);
  ASSERT_TRUE(world.Start().ok());
  ASSERT_TRUE(world.client.WaitUntil([&] { return !world.client.ActionNames().empty(); }));
  world.client.FailNext("patch", "nodes/status", kDriverGone);
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_THAT(world.client.Peek<api::Node>("", World::kNode)->volumes_in_use(),
              ElementsAre(World::Device("x")));
}

// ---- content, expansion, clean-up ----

TEST(VolumeManager, ContentFollowsItsObject) {
  World world({.refreshes = true});
  const Json map = {{"apiVersion", "v1"},
                    {"kind", "ConfigMap"},
                    {"metadata", {{"name", "settings"}, {"namespace", "default"}}},
                    {"data", {{"a", "1"}}}};
  world.client.Add(map);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(
      World::Pod("web", {{{"name", "conf"}, {"configMap", {{"name", "settings"}}}}}));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.client.WaitForWatches(api::kinds::kConfigMap, 1));
  const size_t before = world.scratch->CallCount("SetUp");
  Json changed = map;
  changed["data"]["a"] = "2";
  world.client.Add(changed);
  EXPECT_TRUE(world.scratch->WaitForCalls("SetUp", before + 1));
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  EXPECT_TRUE(world.client.WaitForWatches(api::kinds::kConfigMap, 0));
}

TEST(VolumeManager, ContentFollowsThePod) {
  World world({.refreshes = true});
  ASSERT_TRUE(world.Start().ok());
  const std::vector<Json> volumes = {{{"name", "conf"}, {"configMap", {{"name", "settings"}}}}};
  world.manager->WantVolumes(World::Pod("web", volumes));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  const size_t before = world.scratch->CallCount("SetUp");
  world.manager->WantVolumes(World::Pod("web", volumes, {{"colour", "red"}}));
  EXPECT_TRUE(world.scratch->WaitForCalls("SetUp", before + 1));
}

TEST(VolumeManager, AGrownVolumeGrowsOnTheNode) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["capacity"]["storage"] = "2Gi";
  world.client.Add(pv);
  Json claim = world.client.Peek(api::kinds::kPersistentVolumeClaim, "default", "x");
  claim["status"]["conditions"] = {{{"type", "FileSystemResizePending"}, {"status", "True"}},
                                   {{"type", "Other"}, {"status", "True"}}};
  claim["status"]["allocatedResources"] = {{"storage", "2Gi"}};
  claim["status"]["allocatedResourceStatuses"] = {{"storage", "NodeResizePending"}};
  world.client.Add(claim);
  ASSERT_TRUE(world.host->fake_events().WaitFor(
      {"PersistentVolumeClaim x Normal FileSystemResizeSuccessful"}));
  const auto done = world.client.Peek<api::PersistentVolumeClaim>("default", "x");
  EXPECT_EQ(done->capacity(), "2Gi");
  EXPECT_EQ(done->json()["status"]["conditions"].size(), 1U);
  EXPECT_EQ(done->String({"status", "allocatedResourceStatuses", "storage"}), "");
  EXPECT_EQ(world.shared->CallCount("Expand pv-x 2147483648"), 1U);
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Pod web Normal FileSystemResizeSuccessful"}));
}

TEST(VolumeManager, AnExpansionThatCannotBeIsMarkedAndNotRepeated) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailAll("Expand", base::Error(StatusCode::kOutOfRange, "too large"));
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["capacity"]["storage"] = "2Gi";
  world.client.Add(pv);
  Json claim = world.client.Peek(api::kinds::kPersistentVolumeClaim, "default", "x");
  claim["status"]["allocatedResourceStatuses"] = {{"storage", "NodeResizePending"}};
  world.client.Add(claim);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.client.WaitUntil([&] {
    return world.client.Peek<api::PersistentVolumeClaim>("default", "x")
               ->String({"status", "allocatedResourceStatuses", "storage"}) ==
           "NodeResizeInfeasible";
  }));
  EXPECT_TRUE(
      world.host->fake_events().WaitFor({"Pod web Warning VolumeResizeFailed", "too large"}));
  // The volume stays usable; a second pod on it does not make Expand be called again.
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(world.WaitReady("uid-b"));
  EXPECT_EQ(world.shared->CallCount("Expand"), 1U);
}

// As with the kubelet: not all drivers can grow a file system that is in use.
TEST(VolumeManager, AVolumeGrowsBeforeItsFirstPodMayStart) {
  World world({});
  world.AddBoundClaim("x");
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["capacity"]["storage"] = "2Gi";
  world.client.Add(pv);
  Json claim = world.client.Peek(api::kinds::kPersistentVolumeClaim, "default", "x");
  claim["status"]["allocatedResourceStatuses"] = {{"storage", "NodeResizePending"}};
  world.client.Add(claim);
  world.shared->FailAll("Expand", base::Error(StatusCode::kUnavailable, "busy"));
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web", "grow it"));
  EXPECT_FALSE(world.manager->State("uid-web").ready);
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Pod web Warning VolumeResizeFailed", "busy"}));
  world.shared->FailAll("Expand", base::OkStatus());
  EXPECT_TRUE(world.WaitReady("uid-web"));
  EXPECT_TRUE(world.client.WaitUntil([&] {
    return world.client.Peek<api::PersistentVolumeClaim>("default", "x")->capacity() == "2Gi";
  }));
}

TEST(VolumeManager, APodGetsItsVolumeThoughItCannotGrowWhereItIs) {
  World world({});
  world.AddBoundClaim("x");
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["capacity"]["storage"] = "2Gi";
  world.client.Add(pv);
  world.shared->FailAll("Expand", base::Error(StatusCode::kFailedPrecondition, "in use"));
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeManager, MountsInsideAVolumeGoBeforeIt) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  // A container with Bidirectional propagation makes a mount inside the volume.
  const std::string inside = world.manager->State("uid-web").published.at("data").path + "/inside";
  ASSERT_TRUE(
      world.host->mounter().Mount({.source = "tmpfs", .target = inside, .fs_type = "tmpfs"}).ok());
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  EXPECT_FALSE(world.host->fake_mounter().IsMounted(inside));
}

TEST(VolumeManager, ARegisteredDriverEndsTheWait) {
  World world({});
  world.AddBoundClaim("x");
  world.shared->FailAll("MountDevice", kDriverGone);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.shared->WaitForCalls("MountDevice", 1));
  world.shared->FailAll("MountDevice", base::OkStatus());
  world.manager->DriverRegistered(World::kDriver);
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeManager, AVolumeThatIsElsewhereIsNotMountedUntilTheNodeIsThere) {
  World world({});
  world.AddBoundClaim("x");
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = Json::array(
      {{{"matchExpressions", {{{"key", "zone"}, {"operator", "In"}, {"values", {"b", "c"}}}}}}});
  world.client.Add(pv);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Pod web Warning FailedMount",
                                                 "volume node affinity conflict",
                                                 "it is where zone In [b,c]"}));
  EXPECT_THAT(world.shared->Calls(), IsEmpty());
  Json node = world.client.Peek(api::kinds::kNode, "", World::kNode);
  node["metadata"]["labels"]["zone"] = "c";
  world.client.Add(node);
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeManager, APodHearsWhenItsVolumeDoesNotDoWellAndWhenItDoesAgain) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  using Condition = volume::VolumePlugin::Condition;
  world.shared->SetCondition(std::optional(Condition{.abnormal = true, .message = "a disk fails"}));
  EXPECT_TRUE(world.host->fake_events().WaitFor(
      {"Pod web Warning VolumeConditionAbnormal", "Volume data: a disk fails"}));
  // What the driver does not know changes nothing of what was known.
  world.shared->SetCondition(base::Status(kDriverGone));
  world.shared->SetCondition(std::optional(Condition{.message = "rebuilt"}));
  EXPECT_TRUE(world.host->fake_events().WaitFor(
      {"Pod web Normal VolumeConditionNormal", "Volume data: rebuilt"}));
  EXPECT_EQ(world.host->fake_events().Count("VolumeConditionAbnormal"), 1U);
}

}  // namespace
}  // namespace berth::node
