#include "node/volumes/volume_lookups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "node/volumes/fake_volume_world.h"

namespace berth::node {
namespace {

using base::Json;
using ::testing::IsEmpty;
using World = FakeVolumeWorld;

// The first time that a pod's volumes are looked up, the volume grows after it was read. That has
// been told to all who listen when the look-up goes on.
TEST(VolumeLookups, WhatChangesWhileItIsLookedUpIsSeen) {
  World world({});
  world.AddBoundClaim("x");
  const auto grow = [&world] {
    Json volume = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
    volume["spec"]["capacity"]["storage"] = "2Gi";
    world.client.Add(volume);
    world.AddVolume("later", "");  // seen after it
    const auto& copies = world.informers.Of<api::PersistentVolume>();
    while (copies.Get("pv-later") == nullptr) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  class Growing final : public FakeVolumePlugin {
   public:
    Growing(FakeVolumeHost& host, std::function<void()> grow)
        : FakeVolumePlugin(host, {}), grow_(std::move(grow)) {}
    volume::StatusOr<bool> NeedsAttach(const volume::VolumeSpec& spec) const override {
      std::call_once(once_, grow_);
      return FakeVolumePlugin::NeedsAttach(spec);
    }

   private:
    const std::function<void()> grow_;
    mutable std::once_flag once_;
  };
  Growing plugin(*world.host, grow);
  world.plugins = {&plugin};
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  EXPECT_TRUE(plugin.WaitForCalls("Expand", 1));
  world.manager->ReleaseVolumes("uid-web");
  EXPECT_TRUE(world.WaitReleased("uid-web"));
  world.StopManager();
}

TEST(VolumeLookups, APodWithoutUsedVolumesIsReadyAtOnce) {
  World world({});
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(World::Pod("web", {}));
  EXPECT_TRUE(world.manager->State("uid-web").ready);
  world.manager->ReleaseVolumes("uid-web");
  EXPECT_TRUE(world.manager->HasReleased("uid-web"));
}

TEST(VolumeLookups, AnUnboundClaimIsNamedAndItsBindingWakesThePod) {
  World world({});
  world.AddUnboundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web",
                               "volume 'data': claim 'x' is not bound: its phase is "
                               "Pending; storage class 'fast'"));
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Pod web Warning FailedMount", "claim 'x'"}));
  world.AddVolume("x", "claim-x");
  world.Bind("x");
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeLookups, AMissingClaimIsNamed) {
  World world({});
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web", "claim 'x' does not exist"));
  world.AddBoundClaim("x");
  EXPECT_TRUE(world.WaitReady("uid-web"));
}

TEST(VolumeLookups, AVolumeOfAnotherClaimIsNotUsed) {
  World world({});
  world.AddBoundClaim("x");
  world.AddVolume("x", "claim-of-the-past");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReason("uid-web",
                               "volume 'pv-x' belongs to claim 'default/x' (uid "
                               "claim-of-the-past)"));
  EXPECT_THAT(world.shared->Calls(), IsEmpty());
}

TEST(VolumeLookups, ADeletedClaimIsNotGivenToANewPod) {
  World world({});
  world.AddBoundClaim("x");
  Json claim = world.client.Peek(api::kinds::kPersistentVolumeClaim, "default", "x");
  claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  world.client.Add(claim);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  EXPECT_TRUE(world.WaitReason("uid-web", "claim 'x' is being deleted"));
}

TEST(VolumeLookups, TwoVolumesOfAPodMayNameOneClaim) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(
      World::Pod("web", {World::ClaimVolume("one", "x"), World::ClaimVolume("two", "x")}));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  const PodVolumes state = world.manager->State("uid-web");
  EXPECT_EQ(state.published.at("one").path, state.published.at("two").path);
  EXPECT_EQ(world.shared->CallCount("SetUp"), 1U);
}

TEST(VolumeLookups, RepublishingThatIsSwitchedOnReachesPodsThatRun) {
  World world({});
  const auto put = [&](bool republish) {
    world.client.Add({{"apiVersion", "storage.k8s.io/v1"},
                      {"kind", "CSIDriver"},
                      {"metadata", {{"name", World::kDriver}}},
                      {"spec", {{"requiresRepublish", republish}}}});
  };
  put(false);
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.shared->CallCount("SetUp uid-web"), 1U);
  put(true);
  EXPECT_TRUE(world.shared->WaitForCalls("SetUp uid-web", 2));
}

TEST(VolumeLookups, UsageMustFitTheVolume) {
  World world({});
  world.AddBoundClaim("x");
  Json pv = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-x");
  pv["spec"]["volumeMode"] = "Block";
  world.client.Add(pv);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  EXPECT_TRUE(world.WaitReason("uid-web", "volume 'pv-x' is a raw block device"));
}

}  // namespace
}  // namespace berth::node
