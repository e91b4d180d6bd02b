#include "volume/remote/fc.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "base/assert_ok.h"
#include "volume/remote/disk_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class FcTest : public DiskTest {
 protected:
  FcTest() {
    for (const char* place : {"disk/by-path", "disk/by-id", "sys/class/scsi_host/host3",
                              "sys/block/sdq/holders", "sys/block/sdr/holders"}) {
      std::filesystem::create_directories(folder_ / place);
    }
    host_.End();  // so that nothing waits for a device
    host_.fake_exec().SetAnswer([this](const platform::Command& command) {
      if (command.argv.back().ends_with("/scan")) ShowDisk();
      return StatusOr<platform::CommandResult>(platform::CommandResult());
    });
  }
  static Json Source(const Json& source) { return {{"fc", source}}; }
  void Link(const std::string& link, const std::string& device) {
    std::filesystem::create_symlink("../../" + device, folder_ / ("disk/" + link));
  }
  // What the kernel and udev show after a scan.
  void ShowDisk() {
    Link("by-path/pci-0000:03:00.0-fc-0x500a0981891b8dc5-lun-10", "sdr");
    Link("by-path/pci-0000:03:00.0-fc-0x500a0981891b8dc5-lun-1", "sdq");
    Link("by-path/pci-0000:03:00.0-fc-0x500a0981891b8dc5-lun-1-part1", "sdq1");
  }
  std::string MessageOf(const VolumeSpec& spec) {
    const Status mounted = plugin_.MountDevice(pod_, spec, {});
    EXPECT_FALSE(mounted.ok());  // no such device on this machine
    return std::string(base::Message(mounted));
  }

  FcPlugin plugin_{host_, {.links = folder_ / "disk", .sys = folder_ / "sys"}};
  const VolumeSpec lun_ = Spec(Source({{"targetWWNs", {"500a0981891b8dc5"}}, {"lun", 1}}), "pv-1");
};

TEST_F(FcTest, ALunIsFoundAfterAScanAndRemovedAfterUse) {
  EXPECT_EQ(**plugin_.DeviceName(lun_), "kubernetes.io/fc/500a0981891b8dc5:1");
  EXPECT_THAT(MessageOf(lun_), HasSubstr("mapped as '/dev/sdq'"));
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr("- - - " + folder_ / "sys/class/scsi_host/host3/scan")));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, lun_)));
  EXPECT_THAT(Lines(), Contains("blockdev --flushbufs /dev/sdq"));
  EXPECT_THAT(Lines().back(), HasSubstr("sys/block/sdq/device/delete"));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

TEST_F(FcTest, TheDeviceOverSeveralPathsGoesBeforeThem) {
  ShowDisk();
  std::filesystem::create_directories(folder_ / "sys/block/sdq/holders/dm-4");
  std::filesystem::create_directories(folder_ / "sys/block/dm-4/slaves/sdq");
  EXPECT_THAT(MessageOf(lun_), HasSubstr("mapped as '/dev/dm-4'"));
  EXPECT_THAT(Lines(), IsEmpty());  // no scan was needed
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, lun_)));
  EXPECT_THAT(Lines(), Contains("multipath -f /dev/dm-4"));
  EXPECT_THAT(Lines().back(), HasSubstr("sys/block/sdq/device/delete"));
}

TEST_F(FcTest, AWwidWithABlankIsFoundById) {
  Link("by-id/scsi-ACME_0815", "sdr");
  EXPECT_THAT(MessageOf(Spec(Source({{"wwids", {"ACME 0815"}}}))), HasSubstr("'/dev/sdr'"));
}

TEST_F(FcTest, ADeviceThatIsAnotherDiskByNowStays) {
  ShowDisk();
  EXPECT_THAT(MessageOf(lun_), HasSubstr("'/dev/sdq'"));
  std::filesystem::remove(folder_ / "disk/by-path/pci-0000:03:00.0-fc-0x500a0981891b8dc5-lun-1");
  Link("by-path/pci-0000:03:00.0-fc-0x500a0981891b8dc5-lun-1", "sdr");
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, lun_)));
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("delete"))));
}

// The pod of another namespace cannot mount the disk, and its end must not take it away.
TEST_F(FcTest, ADiskThatTwoVolumesNameGoesWithTheLast) {
  ShowDisk();
  const Json source = Source({{"targetWWNs", {"500a0981891b8dc5"}}, {"lun", 1}});
  VolumeSpec mine = Spec(source), theirs = Spec(source);
  theirs.pod_ns = "other";
  EXPECT_THAT(MessageOf(mine), HasSubstr("'/dev/sdq'"));
  EXPECT_THAT(MessageOf(theirs), HasSubstr("'/dev/sdq'"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, theirs)));
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("delete"))));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, mine)));
  EXPECT_THAT(Lines().back(), HasSubstr("sys/block/sdq/device/delete"));
}

TEST_F(FcTest, SaysWhatIsMissing) {
  const VolumeSpec absent = Spec(Source({{"targetWWNs", {"500a098000000000"}}, {"lun", 1}}));
  EXPECT_THAT(MessageOf(absent), HasSubstr("sees no disk of Fibre Channel with the name"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, absent)));
  EXPECT_THAT(MessageOf(Spec(Source({{"lun", 1}}))), HasSubstr("either targetWWNs or wwids"));
  EXPECT_THAT(MessageOf(Spec(Source({{"targetWWNs", {"../../sda"}}, {"lun", 1}}))),
              HasSubstr("fc.targetWWNs"));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

}  // namespace
}  // namespace berth::volume
