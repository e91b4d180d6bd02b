// What the plugin finds on the node is what the volume manager's records said.
#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class FindVolumesTest : public CsiFixture {
 protected:
  VolumePlugin::Found Find() {
    const auto found = plugin_->FindOnNode();
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : VolumePlugin::Found{};
  }

  // Finds one device and one volume of the pod that tear-down does as well with as with the
  // records.
  void ExpectFound(const VolumeSpec& spec) {
    const VolumePlugin::Found found = Find();
    ASSERT_THAT(found.devices, SizeIs(1));
    ASSERT_THAT(found.pod_volumes, SizeIs(1));
    const DeviceRecord device = DeviceRecordOf(spec);
    const PodVolumeRecord volume = PodRecordOf(spec);
    EXPECT_EQ(found.devices[0].device_name, device.device_name);
    EXPECT_EQ(found.devices[0].state, device.state);
    EXPECT_EQ(found.pod_volumes[0].device_name, device.device_name);
    EXPECT_EQ(found.pod_volumes[0].pod_uid, volume.pod_uid);
    EXPECT_EQ(found.pod_volumes[0].folder_name, volume.folder_name);
    EXPECT_EQ(found.pod_volumes[0].block, volume.block);
    EXPECT_EQ(found.pod_volumes[0].state, volume.state);
    ASSERT_TRUE(plugin_->TearDown(found.pod_volumes[0]).ok());
    ASSERT_TRUE(plugin_->UnmountDevice(found.devices[0]).ok());
    EXPECT_THAT(Find().devices, IsEmpty());
    EXPECT_THAT(Find().pod_volumes, IsEmpty());
  }
};

TEST_F(FindVolumesTest, NothingOnANewNode) {
  EXPECT_THAT(Find().devices, IsEmpty());
  EXPECT_THAT(Find().pod_volumes, IsEmpty());
}

TEST_F(FindVolumesTest, AFileSystem) {
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, {}).ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  ExpectFound(spec);
}

TEST_F(FindVolumesTest, ARawBlockVolume) {
  const VolumeSpec spec = Persistent({{"volumeMode", "Block"}});
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, {}).ok());
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  std::ofstream(Path("plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/") +
                std::string(kPodUid));  // as a driver makes it
  ExpectFound(spec);
}

TEST_F(FindVolumesTest, AnInlineVolumeHasNoDevice) {
  PutDriver({{"volumeLifecycleModes", {"Ephemeral"}}, {"podInfoOnMount", true}});
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  const VolumePlugin::Found found = Find();
  EXPECT_THAT(found.devices, IsEmpty());
  ASSERT_THAT(found.pod_volumes, SizeIs(1));
  EXPECT_EQ(found.pod_volumes[0].device_name, "");
  EXPECT_EQ(found.pod_volumes[0].state, PodRecordOf(Inline()).state);
}

TEST_F(FindVolumesTest, WhatIsDamagedOrElsewhereIsLeftOut) {
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  const std::string device = Find().devices.at(0).device_name;
  const std::string below = "plugins/kubernetes.io/csi/fake.csi.example.com/";
  for (const auto& [folder, text] : std::map<std::string, std::string>{
           {"torn", "{"},
           {"elsewhere", R"({"driverName":"fake.csi.example.com","volumeHandle":"vol-2"})"},
           {"leads-out", R"({"driverName":"../..","volumeHandle":"vol-2"})"}}) {
    ASSERT_TRUE(platform::MakeFolders(Path(below + folder)).ok());
    std::ofstream(Path(below + folder + "/vol_data.json")) << text;
  }
  ASSERT_THAT(Find().devices, SizeIs(1));
  EXPECT_EQ(Find().devices[0].device_name, device);
}

}  // namespace
}  // namespace berth::volume
