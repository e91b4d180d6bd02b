// For tests of file-system volumes: "vol-1" through the plugin, with the driver's and the host's
// doubles.
#pragma once

#include <string>

#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {

class MountVolumesTest : public CsiFixture {
 protected:
  using Mode = csi::v1::VolumeCapability::AccessMode;
  using StageRequest = csi::v1::NodeStageVolumeRequest;
  using PublishRequest = csi::v1::NodePublishVolumeRequest;

  // The device's folder is named by the SHA-256 of "vol-1".
  inline static const std::string kDevice =
      "plugins/kubernetes.io/csi/fake.csi.example.com/"
      "d2e8363faaac7ae76def3b14091d8eb5755f6b92e9531627aeec833a8731cc49";
  inline static const std::string kPodVolume =
      "pods/11111111-2222-3333-4444-555555555555/volumes/kubernetes.io~csi/pv-1";

  static std::string MessageOf(const Status& status) { return std::string(base::Message(status)); }

  Status Stage(const VolumeSpec& spec = Persistent(), const api::Pod& pod = Pod()) {
    return plugin_->MountDevice(pod, spec, {{"device", "/dev/xvdb"}});
  }
  StatusOr<Published> Publish(const VolumeSpec& spec = Persistent(), const api::Pod& pod = Pod()) {
    return plugin_->SetUp(pod, spec, {{"device", "/dev/xvdb"}});
  }
  // Another volume's mount point shows the files of "vol-1".
  void MountOfAnother() {
    const std::string folder = "pods/other/volumes/kubernetes.io~csi/pv-2";
    ASSERT_TRUE(platform::MakeFolders(Path(folder)).ok());
    WriteJson(folder + "/vol_data.json", {{"driverName", kDriver}, {"volumeHandle", "vol-2"}});
    host_.fake_mounter().Add(Path(folder + "/mount"), "ext4", "/dev/vol-1");
  }
};

}  // namespace berth::volume
