#include "crust/kata/volume_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust::kata {
namespace {

using base::StatusCode;
using platform::TargetPath;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

KataVolume MakeVolume(const std::string& pod, const std::string& name, dev_t device,
                      std::vector<std::string> options = {}) {
  KataVolume volume{.pod = api::PodUid(pod), .sandbox = rpc::SandboxId("s-" + pod)};
  volume.volume = {.host_volume_id = "/dev/" + name,
                   .target = TargetPath("/kubelet/pods/" + pod + "/volumes/p/" + name),
                   .state = VolumeState::kPublished};
  volume.volume.plan.device = {.source = "/dev/" + name, .block = true, .number = device};
  volume.volume.plan.steps.emplace_back(
      MountFileSystem{.type = "ext4", .options = std::move(options)});
  volume.volume.plan.steps.emplace_back(PlaceInSandbox{"v0"});
  volume.device_bytes = 1 << 30;
  return volume;
}

class VolumeTableTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    table_.reset();
    auto table = VolumeTable::Open(folder_ / "data");
    ASSERT_OK(table);
    table_ = *std::move(table);
  }

  const platform::TempFolder folder_;
  std::unique_ptr<VolumeTable> table_;
};

TEST_F(VolumeTableTest, ARestartForgetsNothing) {
  KataVolume volume = MakeVolume("u1", "a", 5);
  volume.grows_from = 12345;
  ASSERT_OK(table_->ReserveVolume(volume));
  ASSERT_OK(table_->StoreVolume(volume));
  Reopen();
  const auto found = table_->FindTarget(volume.volume.target);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pod, volume.pod);
  EXPECT_EQ(found->sandbox, volume.sandbox);
  EXPECT_EQ(found->volume.plan, volume.volume.plan);
  EXPECT_EQ(found->device_bytes, volume.device_bytes);
  EXPECT_EQ(found->grows_from, volume.grows_from);
  ASSERT_OK(table_->ForgetVolume(volume.pod, volume.volume.target));
  Reopen();
  EXPECT_THAT(table_->ListPods(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "data/pods"));
}

TEST_F(VolumeTableTest, WhatIsOnlyReservedIsNotRecorded) {
  const KataVolume volume = MakeVolume("u1", "a", 5);
  ASSERT_OK(table_->ReserveVolume(volume));
  ASSERT_OK(table_->StoreVolume(MakeVolume("u1", "b", 6)));
  Reopen();
  EXPECT_FALSE(table_->FindTarget(volume.volume.target).has_value());
  EXPECT_THAT(table_->ListVolumes(api::PodUid("u1")), SizeIs(1));
}

TEST_F(VolumeTableTest, OneKernelForAVolumeUnlessAllOnlyRead) {
  ASSERT_OK(table_->ReserveVolume(MakeVolume("u1", "a", 5)));
  const auto refused = table_->ReserveVolume(MakeVolume("u2", "a2", 5));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("/kubelet/pods/u1/volumes/p/a"));
  EXPECT_EQ(table_->ReserveVolume(MakeVolume("u2", "a2", 5, {"ro"})).code(),
            StatusCode::kFailedPrecondition);

  ASSERT_OK(table_->ReserveVolume(MakeVolume("u3", "b", 6, {"ro"})));
  const KataVolume other = MakeVolume("u4", "b2", 6, {"ro"});
  ASSERT_OK(table_->ReserveVolume(other));
  EXPECT_TRUE(table_->IsUsedElsewhere(other));
  EXPECT_FALSE(table_->IsUsedElsewhere(MakeVolume("u1", "a", 5)));
  ASSERT_OK(table_->ForgetVolume(other.pod, other.volume.target));
  EXPECT_FALSE(table_->IsUsedElsewhere(MakeVolume("u3", "b", 6)));
}

TEST_F(VolumeTableTest, RecordsOfAnotherBootAreDropped) {
  KataPod record{.pod = api::PodUid("u1"), .boot_id = "another-boot"};
  record.volumes.push_back(MakeVolume("u1", "a", 5));
  std::ofstream(folder_ / "data/pods/u1.json") << KataPodKind::Encode(record);
  Reopen();
  EXPECT_THAT(table_->ListPods(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data/pods/u1.json"));
}

TEST_F(VolumeTableTest, APodWhoseRecordIsDamagedIsLeftAlone) {
  std::ofstream(folder_ / "data/pods/u1.json") << "{";
  Reopen();
  const api::PodUid pod("u1");
  EXPECT_EQ(table_->LockPod(pod, milliseconds(1)).status().code(), StatusCode::kInternal);
  EXPECT_TRUE(table_->LockPod(api::PodUid("u2"), milliseconds(1)).ok());
  table_->SortOutUnreadable([&](const api::PodUid& each) { return each == pod; });
  EXPECT_EQ(table_->LockPod(pod, milliseconds(1)).status().code(), StatusCode::kInternal);
  table_->SortOutUnreadable([](const api::PodUid&) { return false; });
  EXPECT_TRUE(table_->LockPod(pod, milliseconds(1)).ok());
}

TEST_F(VolumeTableTest, ASecondCallForAPodIsToldSo) {
  const auto first = table_->LockPod(api::PodUid("u1"), milliseconds(1));
  ASSERT_OK(first);
  EXPECT_EQ(table_->LockPod(api::PodUid("u1"), milliseconds(1)).status().code(),
            StatusCode::kAborted);
}

TEST(KataRecordTest, WhatIsNoRecordIsRefused) {
  KataPod record{.pod = api::PodUid("u1"), .boot_id = "boot"};
  record.volumes.push_back(MakeVolume("u1", "a", 5));
  ASSERT_OK(KataPodKind::Decode(KataPodKind::Encode(record)));
  for (const char* text :
       {"", "{}", R"({"version":1,"podUid":"u1","bootId":"","volumes":[],"kata":[]})",
        R"({"version":1,"podUid":"../u1","bootId":"b","volumes":[],"kata":[]})",
        R"({"version":1,"podUid":"u1","bootId":"b","volumes":[],"kata":[{}]})",
        R"({"version":2,"podUid":"u1","bootId":"b","volumes":[],"kata":[]})"}) {
    EXPECT_EQ(KataPodKind::Decode(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace berth::crust::kata
