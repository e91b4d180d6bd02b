// What the volume manager makes of records of an earlier boot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "node/volumes/fake_volume_world.h"
#include "platform/files/durable_file.h"
#include "rpc/fake_csi_driver.h"
#include "volume/csi/csi_plugin.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using World = FakeVolumeWorld;

const base::Status kRebooted = base::Error(StatusCode::kUnavailable, "the node agent was killed");

// Makes the records look as if they had been written in an earlier boot.
void AgeRecords(World& world) {
  for (const std::string folder : {"devices", "pods"}) {
    for (const std::string& name : world.RecordFiles(folder)) {
      const std::string path = world.RecordFolder(folder) + "/" + name;
      Json json = *base::json::Parse(*platform::ReadFile(path));
      json["bootId"] = "an-earlier-boot";
      ASSERT_TRUE(platform::WriteDurably<"test.file">(path, base::json::Dump(json)).ok());
    }
  }
}

TEST(VolumeReboot, APodThatComesBackGetsItsVolumeAnew) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  world.StopManager();
  world.shared->Reboot();
  AgeRecords(world);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_THAT(world.shared->Mounted(), UnorderedElementsAre(World::Device("x"), "uid-web/pv-x"));
  EXPECT_EQ(world.shared->CallCount("MountDevice"), 2U);
}

TEST(VolumeReboot, WhatIsLeftIsRemovedEvenIfTheDriverIsGone) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.StopManager();
  world.shared->Reboot();
  AgeRecords(world);
  world.shared->FailAll("TearDown", kRebooted);
  world.shared->FailAll("UnmountDevice", kRebooted);
  ASSERT_TRUE(world.Start().ok());
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(world.RecordFiles("devices"), IsEmpty());
  EXPECT_EQ(platform::ListFolder(world.host->paths().PodVolume(api::PodUid("uid-web"),
                                                               "kubernetes.io/csi",
                                                               api::VolumeName("pv-x")))
                .status()
                .code(),
            StatusCode::kNotFound);
}

// The real plugin's marks beside its mounts would pass for volumes of this boot.
TEST(VolumeReboot, OfCsiVolumesNothingIsLeftThoughTheirDriverIsGone) {
  std::unique_ptr<volume::VolumePlugin> plugin;  // outlives the manager
  auto driver = *rpc::FakeCsiDriver::Start({.name = World::kDriver});
  World world({});
  world.host->drivers().Register(World::kDriver, driver->socket());
  world.client.Add({{"apiVersion", "storage.k8s.io/v1"},
                    {"kind", "CSIDriver"},
                    {"metadata", {{"name", World::kDriver}}},
                    {"spec", {{"attachRequired", false}}}});
  driver->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message& message) {
    const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
    return world.host->mounter().Mount(
        {.source = request.volume_id(), .target = request.target_path(), .fs_type = "ext4"});
  });
  plugin = volume::NewCsiPlugin(*world.host);
  world.plugins = {plugin.get()};
  world.AddBoundClaim("x");
  world.AddBoundClaim("raw");
  Json raw = world.client.Peek(api::kinds::kPersistentVolume, "", "pv-raw");
  raw["spec"]["volumeMode"] = "Block";
  world.client.Add(raw);
  ASSERT_TRUE(world.Start().ok());
  Json pod = World::Pod("web", {World::ClaimVolume("data", "x"), World::ClaimVolume("raw", "raw")})
                 ->json();
  pod["spec"]["containers"][0]["volumeMounts"] = {{{"name", "data"}, {"mountPath", "/data"}}};
  pod["spec"]["containers"][0]["volumeDevices"] = {{{"name", "raw"}, {"devicePath", "/dev/raw"}}};
  world.manager->WantVolumes(std::make_shared<const api::Pod>(pod));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitInUse({World::Device("raw"), World::Device("x")}));
  world.StopManager();
  ASSERT_EQ(plugin->FindOnNode()->devices.size(), 2U);

  world.host->fake_mounter().Clear();
  AgeRecords(world);
  world.host->drivers().Unregister(World::kDriver);
  ASSERT_TRUE(world.Start().ok());
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(plugin->FindOnNode()->devices, IsEmpty());
  EXPECT_THAT(plugin->FindOnNode()->pod_volumes, IsEmpty());
  ASSERT_TRUE(world.Start().ok());
  EXPECT_THAT(world.manager->KnownPods(), IsEmpty());
  EXPECT_EQ(world.host->fake_events().Count("VolumeRecordLost"), 0U);
}

}  // namespace
}  // namespace berth::node
