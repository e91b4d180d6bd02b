#include "crustproxy/kubelet_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::crustproxy {
namespace {

using ::testing::ElementsAre;

TEST(KubeletRequestTest, ATargetNamesItsPodAndVolume) {
  const volume::Paths paths("/var/lib/kubelet");
  const auto found =
      ReadTarget(paths, "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pod.text(), "uid-1");
  EXPECT_EQ(found->volume.text(), "pv-1");
  for (const char* other :
       {"", "/", "/var/lib/kubelet/pods", "/var/lib/kubelet/pods/uid-1",
        "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/uid-1",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/pv-1",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount/x",
        "/var/lib/kubelet/pods/../volumes/kubernetes.io~csi/pv-1/mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi/../mount",
        "/var/lib/kubelet/pods/uid-1/volumes/kubernetes.io~csi//mount",
        "/var/lib/kubelet2/pods/uid-1/volumes/kubernetes.io~csi/pv-1/mount"}) {
    EXPECT_FALSE(ReadTarget(paths, other).has_value()) << other;
  }
}

TEST(KubeletRequestTest, FlagsAreSplitAndTheLabelIsApart) {
  csi::v1::VolumeCapability capability;
  capability.mutable_mount()->add_mount_flags("noatime,uid=5");
  capability.mutable_mount()->add_mount_flags("context=\"u:r:t:s0:c1,c2\"");
  capability.mutable_mount()->add_mount_flags("discard");
  volume::DeferredMount mount;
  ReadMountFlags(capability, mount);
  EXPECT_THAT(mount.options, ElementsAre("noatime", "uid=5", "discard"));
  EXPECT_EQ(mount.selinux_label, "u:r:t:s0:c1,c2");
}

TEST(KubeletRequestTest, AGroupIsANumber) {
  csi::v1::VolumeCapability capability;
  EXPECT_EQ(ReadMountGroup(capability), std::nullopt);
  capability.mutable_mount()->set_volume_mount_group("3000");
  EXPECT_EQ(ReadMountGroup(capability), 3000);
  capability.mutable_mount()->set_volume_mount_group("3000x");
  EXPECT_EQ(ReadMountGroup(capability), std::nullopt);
}

}  // namespace
}  // namespace berth::crustproxy
