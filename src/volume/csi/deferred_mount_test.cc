#include "volume/csi/deferred_mount.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::volume::csi_volume {
namespace {

using base::StatusCode;
using ::testing::ElementsAre;

Volume Offered(std::vector<std::string> file_systems) {
  Volume volume;
  volume.runtime_file_systems = std::move(file_systems);
  return volume;
}

csi::v1::FileSystemMountInfo Info(const std::string& source, const std::string& type) {
  csi::v1::FileSystemMountInfo info;
  info.set_source(source);
  info.set_type(type);
  return info;
}

TEST(ReadMountInfo, SortsTheOptions) {
  auto info = Info("/dev/loop1", "xfs");
  (*info.mutable_options())["noatime"] = "";
  (*info.mutable_options())["logbsize"] = "64k";
  const auto mount = ReadMountInfo(Offered({"ext4", "xfs"}), info);
  ASSERT_TRUE(mount.ok()) << mount.status();
  EXPECT_EQ(mount->source, "/dev/loop1");
  EXPECT_EQ(mount->fs_type, "xfs");
  EXPECT_THAT(mount->options, ElementsAre("logbsize=64k", "noatime"));
}

TEST(ReadMountInfo, TheLabelIsNotAnOption) {
  auto info = Info("/dev/loop1", "xfs");
  (*info.mutable_options())["context"] = "\"system_u:object_r:container_file_t:s0:c1,c2\"";
  Volume volume = Offered({"xfs"});
  volume.selinux_context = "system_u:object_r:container_file_t:s0:c1,c2";
  const auto mount = ReadMountInfo(volume, info);
  ASSERT_TRUE(mount.ok()) << mount.status();
  EXPECT_THAT(mount->options, ElementsAre());
  EXPECT_EQ(mount->selinux_label, volume.selinux_context);
  EXPECT_FALSE(mount->selinux_relabel);
}

TEST(ReadMountInfo, ADriverThatDefersWhatNobodyOffered) {
  const auto code = [](const Volume& volume, const csi::v1::FileSystemMountInfo& info) {
    return ReadMountInfo(volume, info).status().code();
  };
  EXPECT_EQ(code(Offered({}), Info("/dev/loop1", "xfs")), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Offered({"ext4"}), Info("/dev/loop1", "xfs")), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Offered({"xfs"}), Info("", "xfs")), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Offered({"xfs"}), Info("/dev/a\nb", "xfs")), StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Offered({"xfs"}), Info(std::string(5000, 'a'), "xfs")),
            StatusCode::kFailedPrecondition);
}

TEST(ReadMountInfo, OptionsThatWouldBeOthers) {
  for (const auto& [key, value] : {std::pair("a,b", ""), std::pair("", "x"), std::pair("a=b", "c"),
                                   std::pair("a", "1,exec"), std::pair("a", "1\n2")}) {
    auto info = Info("/dev/loop1", "xfs");
    (*info.mutable_options())[key] = value;
    EXPECT_EQ(ReadMountInfo(Offered({"xfs"}), info).status().code(), StatusCode::kInvalidArgument)
        << key << "=" << value;
  }
}

TEST(SandboxHandler, IsOfASandboxThatIsThere) {
  EXPECT_EQ(SandboxHandler::Connect({.socket = "/run/x.sock"}).status().code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(SandboxHandler::Connect({.socket = "/run/x.sock", .sandbox_id = "s"}).ok());
}

}  // namespace
}  // namespace berth::volume::csi_volume
