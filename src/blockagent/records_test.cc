#include "blockagent/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/fake_faults.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::blockagent {
namespace {

using base::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

Record Sample() {
  return {.volume = "pv-1",
          .volume_uid = "u-1",
          .cluster = "main",
          .image = "img",
          .backend = {{"images", {{"folder", "/srv"}}}},
          .boot_id = "boot",
          .state = State::kMapped,
          .fs_type = "ext4",
          .formatting_uuid = "f-1",
          .shared_mount = "/k/plugins/x",
          .mapping = block::Mapping{.image = "img",
                                    .device = "/dev/loop3",
                                    .device_number = 1795,
                                    .size_bytes = 1 << 20,
                                    .read_only = true,
                                    .state = {{"inode", 7}}},
          .uses = {{.entry = {.node = "n1",
                              .pod_namespace = "default",
                              .pod = "web",
                              .pod_uid = "p-1",
                              .mount_dir = "/k/pods/p-1",
                              .read_only = true,
                              .cluster_name = "main"},
                    .state = State::kDetaching}}};
}

TEST(RecordsTest, KeepsAllOfARecordOverARestart) {
  const platform::TempFolder folder;
  {
    auto records = Records::Open(folder / "volumes");
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_TRUE((*records)->Put(Sample()).ok());
  }
  auto records = Records::Open(folder / "volumes");
  ASSERT_TRUE(records.ok()) << records.status();
  const auto found = (*records)->Get("pv-1");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(ToJson(*found), ToJson(Sample()));
  EXPECT_EQ((*records)->FindVolumeAt("/k/pods/p-1"), "pv-1");
  EXPECT_EQ((*records)->FindVolumeAt("/k/pods/p-2"), "");
  ASSERT_TRUE((*records)->Remove("pv-1").ok());
  EXPECT_THAT((*Records::Open(folder / "volumes"))->ListRecords(), IsEmpty());
}

TEST(RecordsTest, AWriteThatFailsChangesNothing) {
  const platform::TempFolder folder;
  auto records = *Records::Open(folder / "volumes");
  ASSERT_TRUE(records->Put(Sample()).ok());
  Record changed = Sample();
  changed.state = State::kDetaching;
  {
    const base::FakeFaults faults("blockagent.record.write.temp=error");
    EXPECT_FALSE(records->Put(changed).ok());
  }
  EXPECT_EQ(records->Get("pv-1")->state, State::kMapped);
  EXPECT_THAT((*Records::Open(folder / "volumes"))->ListRecords(), SizeIs(1));
}

TEST(RecordsTest, AnotherVolumeOfTheSameImageIsFoundByClusterOrBackEnd) {
  const platform::TempFolder folder;
  auto records = *Records::Open(folder / "volumes");
  ASSERT_TRUE(records->Put(Sample()).ok());
  EXPECT_EQ(records->FindOtherVolume(Sample()), "") << "it is the same volume";
  Record other = Sample();
  other.volume = "pv-2";
  EXPECT_EQ(records->FindOtherVolume(other), "pv-1");
  other.cluster = "another";
  EXPECT_EQ(records->FindOtherVolume(other), "pv-1");
  other.backend = {{"images", {{"folder", "/elsewhere"}}}};
  EXPECT_EQ(records->FindOtherVolume(other), "");
  other.cluster = Sample().cluster;
  EXPECT_EQ(records->FindOtherVolume(other), "pv-1");
  other.image = "another";
  EXPECT_EQ(records->FindOtherVolume(other), "");
}

TEST(RecordsTest, APoolOfCephIsTheSameByAnyMonitorsAndUser) {
  const platform::TempFolder folder;
  auto records = *Records::Open(folder / "volumes");
  Record one = Sample();
  one.backend = {{"rbd", {{"monitors", {"10.0.0.1:6789"}}, {"pool", "kube"}, {"user", "a"}}}};
  ASSERT_TRUE(records->Put(one).ok());
  Record other = one;
  other.volume = "pv-2";
  other.cluster = "another";
  other.backend = {{"rbd", {{"monitors", {"10.0.0.2:6789"}}, {"pool", "kube"}, {"user", "b"}}}};
  EXPECT_EQ(records->FindOtherVolume(other), "pv-1");
  other.backend["rbd"]["namespace"] = "tenant";
  EXPECT_EQ(records->FindOtherVolume(other), "");
  other.backend = {{"rbd", {{"pool", "another"}}}};
  EXPECT_EQ(records->FindOtherVolume(other), "");
}

TEST(RecordsTest, AnImageThatIsALunIsTheSameInEveryStorageCluster) {
  const platform::TempFolder folder;
  auto records = *Records::Open(folder / "volumes");
  Record one = Sample();
  one.backend = {{"iscsi", {{"portals", {"10.0.0.1:3260"}}, {"target", "iqn.a"}}}};
  ASSERT_TRUE(records->Put(one).ok());
  Record other = one;
  other.volume = "pv-2";
  other.cluster = "another";
  other.backend = {{"iscsi", {{"portals", {"10.0.0.2:3260"}}, {"target", "iqn.a"}}}};
  EXPECT_EQ(records->FindOtherVolume(other), "pv-1");
  other.image = "another";
  EXPECT_EQ(records->FindOtherVolume(other), "");
}

TEST(RecordsTest, AFileThatIsNoRecordIsNotPassedOver) {
  const platform::TempFolder folder;
  {
    auto records = *Records::Open(folder / "volumes");
  }
  std::ofstream(folder / "volumes/pv-1.json") << "{}";
  EXPECT_EQ(Records::Open(folder / "volumes").status().code(), StatusCode::kDataLoss);
  std::ofstream(folder / "volumes/pv-1.json") << "half a rec";
  EXPECT_FALSE(Records::Open(folder / "volumes").ok());
  Record other = Sample();
  other.volume = "pv-2";
  std::ofstream(folder / "volumes/pv-1.json") << base::json::Dump(ToJson(other));
  EXPECT_EQ(Records::Open(folder / "volumes").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace berth::blockagent
