// Volumes of a pod that are left to its sandbox's runtime handler, through the volume manager. As
// root, whom alone the handler serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/kinds/runtime_mount.h"
#include "base/assert_ok.h"
#include "node/volumes/fake_volume_world.h"
#include "rpc/fake_crust.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::SizeIs;

class VolumeDeferralTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    PutRuntimeClass("");
    PutClass(true);
    AddClaim("x", "fast");
  }

  // `modes`: the access modes that it allows; "": all.
  void PutRuntimeClass(const std::string& modes) {
    Json runtime_class = {{"apiVersion", "node.k8s.io/v1"},
                          {"kind", "RuntimeClass"},
                          {"metadata", {{"name", "sandboxed"}}},
                          {"handler", "sandboxed"},
                          {"fsMgmtSocket", handler_->socket()}};
    if (!modes.empty()) {
      runtime_class["metadata"]["annotations"][api::kAccessModesAnnotation] = modes;
    }
    world_.client.Add(runtime_class);
  }
  void PutClass(bool allows) {
    world_.client.Add({{"apiVersion", "storage.k8s.io/v1"},
                       {"kind", "StorageClass"},
                       {"metadata", {{"name", "fast"}}},
                       {"allowRuntimeAssistedMount", allows}});
  }
  void AddClaim(const std::string& name, const std::string& class_name) {
    world_.AddBoundClaim(name, "ReadWriteOncePod");
    Json volume = world_.client.Peek(api::kinds::kPersistentVolume, "", "pv-" + name);
    volume["spec"]["storageClassName"] = class_name;
    world_.client.Add(volume);
  }
  void Grow(const std::string& claim) {
    Json volume = world_.client.Peek(api::kinds::kPersistentVolume, "", "pv-" + claim);
    volume["spec"]["capacity"]["storage"] = "2Gi";
    world_.client.Add(volume);
  }
  std::shared_ptr<const api::Pod> Sandboxed(const std::vector<Json>& volumes) {
    api::Pod pod = *world_.Pod("web", volumes);
    pod.Set({"spec", "runtimeClassName"}, "sandboxed");
    return std::make_shared<const api::Pod>(std::move(pod));
  }
  std::shared_ptr<const api::Pod> Sandboxed() {
    return Sandboxed({world_.ClaimVolume("data", "x")});
  }

  FakeVolumeWorld world_{{.defers = true}};
  std::unique_ptr<rpc::FakeCrust> handler_;
};

TEST_F(VolumeDeferralTest, EachVolumeOfAPodIsDecidedForItself) {
  AddClaim("y", "slow");
  ASSERT_OK(world_.Start());
  world_.manager->WantVolumes(
      Sandboxed({world_.ClaimVolume("data", "x"), world_.ClaimVolume("logs", "y")}));
  ASSERT_TRUE(world_.WaitReady("uid-web"));
  const auto deferred = world_.manager->Deferred("uid-web");
  ASSERT_THAT(deferred, SizeIs(1));
  EXPECT_EQ(deferred[0].name, "data");
  EXPECT_EQ(deferred[0].socket, handler_->socket());
  EXPECT_EQ(deferred[0].mount.source, "/dev/pv-x");
  EXPECT_TRUE(world_.shared->Mounted().contains("uid-web/pv-y"));
  EXPECT_FALSE(world_.shared->Mounted().contains("uid-web/pv-x"));
  EXPECT_TRUE(world_.host->fake_events().WaitFor({"RuntimeAssistedMount", "'data'"}));
  EXPECT_TRUE(world_.host->fake_events().WaitFor({"HostMount", "'logs'"}));
}

TEST_F(VolumeDeferralTest, WhatWasLeftToAHandlerIsNotMountedByTheHostLater) {
  world_.shared->FailAll("SetUp", base::Error(StatusCode::kUnavailable, "the driver went away"));
  ASSERT_OK(world_.Start());
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReason("uid-web", "the driver went away"));
  PutClass(false);
  world_.shared->FailAll("SetUp", base::OkStatus());
  ASSERT_TRUE(world_.WaitReason("uid-web", "its mount was left to the runtime handler at"));
  EXPECT_THAT(world_.shared->Mounted(), testing::ElementsAre(FakeVolumeWorld::Device("x")));
  // The host does not mount it after a restart either.
  world_.Restart();
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReason("uid-web", "its mount was left to the runtime handler at"));
  PutClass(true);
  ASSERT_TRUE(world_.WaitReady("uid-web"));
  EXPECT_THAT(world_.manager->Deferred("uid-web"), SizeIs(1));
}

TEST_F(VolumeDeferralTest, AnAccessModeThatTheRuntimeClassDoesNotAllowIsRefusedBeforeTheDriver) {
  PutRuntimeClass("ReadOnlyMany");
  ASSERT_OK(world_.Start());
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReason("uid-web", "claim 'x' has access mode ReadWriteOncePod"));
  EXPECT_TRUE(world_.host->fake_events().WaitFor({"FailedMount", "may only have ReadOnlyMany"}));
  EXPECT_EQ(world_.shared->CallCount("MountDevice"), 0U);
  EXPECT_EQ(world_.shared->CallCount("SetUp"), 0U);
  PutRuntimeClass("ReadOnlyMany,ReadWriteOncePod");
  ASSERT_TRUE(world_.WaitReady("uid-web"));
  // The pod keeps its volumes when the setting changes.
  PutRuntimeClass("ReadOnlyMany");
  world_.Restart();
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReady("uid-web"));
}

TEST_F(VolumeDeferralTest, AHandlerThatIsAwayIsWaitedFor) {
  handler_->script().Fail("RuntimeGetCapabilities", base::Error(StatusCode::kUnavailable, "away"),
                          rpc::CallScript::kAlways);
  ASSERT_OK(world_.Start());
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReason("uid-web", "decide who mounts it"));
  EXPECT_EQ(world_.shared->CallCount("SetUp"), 0U);
  EXPECT_EQ(world_.host->fake_events().Count("HostMount"), 0U);
  handler_->script().Fail("RuntimeGetCapabilities", base::OkStatus(), 0);
  ASSERT_TRUE(world_.WaitReady("uid-web"));
}

TEST_F(VolumeDeferralTest, GrowthWaitsForTheSandboxAndIsRefusedOnceInEach) {
  ASSERT_OK(world_.Start());
  Grow("x");
  world_.shared->FailAll("Expand",
                         base::Error(StatusCode::kFailedPrecondition, "it grows no file systems"));
  world_.manager->WantVolumes(Sandboxed());
  ASSERT_TRUE(world_.WaitReady("uid-web"));
  EXPECT_EQ(world_.shared->CallCount("Expand"), 0U);
  world_.manager->NoteSandbox(api::PodUid("uid-web"), rpc::SandboxId("s1"));
  ASSERT_TRUE(world_.shared->WaitForCalls("Expand", 1));
  ASSERT_TRUE(world_.host->fake_events().WaitFor({"grows no file systems"}));
  world_.manager->DriverRegistered(FakeVolumeWorld::kDriver);
  world_.manager->NoteSandbox(api::PodUid("uid-web"), rpc::SandboxId("s1"));
  EXPECT_EQ(world_.shared->CallCount("Expand"), 1U);
  world_.manager->NoteSandbox(api::PodUid("uid-web"), rpc::SandboxId("s2"));
  ASSERT_TRUE(world_.shared->WaitForCalls("Expand", 2));
}

}  // namespace
}  // namespace berth::node
