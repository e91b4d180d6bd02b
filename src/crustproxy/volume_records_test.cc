#include "crustproxy/volume_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/assert_ok.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crustproxy {
namespace {

using base::StatusCode;
using ::testing::ElementsAre;

VolumeRecord Example() {
  VolumeRecord record{.handle = api::VolumeHandle("pool/../a b"),
                      .name = api::VolumeName("pv-1"),
                      .staging = Staging::kBlock};
  record.stage.set_volume_id("pool/../a b");
  (*record.stage.mutable_publish_context())["device"] = "\x41\"\n";
  record.stage.mutable_volume_capability()->mutable_mount()->set_fs_type("xfs");
  record.pods.push_back(
      {.pod = api::PodUid("u"),
       .target = platform::TargetPath("/k/pods/u/volumes/kubernetes.io~csi/pv-1/mount"),
       .handler = "/run/crust.sock",
       .published = true,
       .mount = {.source = "/dev/x",
                 .fs_type = "xfs",
                 .options = {"noatime"},
                 .fs_group = 0,
                 .only_on_root_mismatch = true,
                 .selinux_label = "u:r:t:s0",
                 .selinux_relabel = true}});
  record.host_targets.emplace_back("/k/pods/v/volumes/kubernetes.io~csi/pv-1/mount");
  return record;
}

TEST(VolumeRecordsTest, ARecordIsReadAsItWasWritten) {
  const auto read = DecodeVolumeRecord(Encode(Example(), "boot-1"), "boot-1");
  ASSERT_OK(read);
  EXPECT_EQ(read->handle, Example().handle);
  EXPECT_EQ(read->name, Example().name);
  EXPECT_EQ(read->staging, Staging::kBlock);
  EXPECT_EQ(read->stage.SerializeAsString(), Example().stage.SerializeAsString());
  ASSERT_EQ(read->pods.size(), 1u);
  EXPECT_EQ(read->pods[0].mount, Example().pods[0].mount);
  EXPECT_TRUE(read->pods[0].published);
  EXPECT_FALSE(read->pods[0].left_by_driver);
  EXPECT_EQ(read->host_targets, Example().host_targets);
}

TEST(VolumeRecordsTest, AfterARebootNothingIsPublished) {
  const auto read = DecodeVolumeRecord(Encode(Example(), "boot-1"), "boot-2");
  ASSERT_OK(read);
  EXPECT_FALSE(read->pods[0].published);
  EXPECT_THAT(read->host_targets, ::testing::IsEmpty());
}

TEST(VolumeRecordsTest, RecordsOutliveTheProcess) {
  const platform::TempFolder folder;
  {
    const auto records = VolumeRecords::Open(folder / "r");
    ASSERT_OK(records);
    ASSERT_OK((*records)->Write(Example()));
  }
  const auto records = VolumeRecords::Open(folder / "r");
  ASSERT_OK(records);
  ASSERT_TRUE((*records)->Find("pool/../a b").has_value());
  ASSERT_OK((*records)->Remove("pool/../a b"));
  ASSERT_OK((*records)->Remove("pool/../a b"));
  EXPECT_FALSE((*records)->Find("pool/../a b").has_value());
}

TEST(VolumeRecordsTest, ADamagedRecordRefusesTheStart) {
  const platform::TempFolder folder;
  ASSERT_OK(VolumeRecords::Open(folder / "r"));
  std::ofstream(folder / "r/x.json") << R"({"version":1,"volumeHandle":"a","staging":"other"})";
  const auto records = VolumeRecords::Open(folder / "r");
  EXPECT_EQ(records.status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace berth::crustproxy
