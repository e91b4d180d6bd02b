#include "crust/kata/direct_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust::kata {
namespace {

using base::Json;
using platform::TargetPath;
using testing::ElementsAre;
using testing::IsEmpty;

// The example of Kata's own tests.
const TargetPath kTarget("/kubelet/a/b/c/d/sdf");
constexpr const char* kName = "L2t1YmVsZXQvYS9iL2MvZC9zZGY=";

MountPlan MakeTestPlan(std::vector<std::string> options, std::vector<Step> more = {}) {
  MountPlan plan{.device = {.source = "/dev/sdf", .block = true, .number = 5}};
  plan.steps.emplace_back(MountFileSystem{.type = "ext4", .options = std::move(options)});
  for (Step& step : more) plan.steps.push_back(std::move(step));
  return plan;
}

mode_t ModeOf(const std::string& path) {
  struct stat st = {};
  EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
  return st.st_mode & 07777;
}

class DirectVolumeTest : public testing::Test {
 protected:
  const platform::TempFolder folder_;
  const DirectVolumes volumes_{folder_ / "shared/direct-volumes"};
  const std::string own_ = folder_ / (std::string("shared/direct-volumes/") + kName);
};

TEST_F(DirectVolumeTest, KataFindsTheFileByTheTargetPath) {
  const Json info = MakeMountInfo(MakeTestPlan({"noatime"}));
  ASSERT_OK(volumes_.WriteVolume(kTarget, info));
  const auto text = platform::ReadFile(own_ + "/mountInfo.json");
  ASSERT_OK(text);
  EXPECT_EQ(Json::parse(*text), Json({{"volume-type", "directvol"},
                                      {"device", "/dev/sdf"},
                                      {"fstype", "ext4"},
                                      {"options", {"noatime"}}}));
  EXPECT_EQ(ModeOf(own_), 0700u);
  EXPECT_EQ(ModeOf(own_ + "/mountInfo.json"), 0600u);
  EXPECT_TRUE(*volumes_.HasVolume(kTarget));
  EXPECT_FALSE(*volumes_.HasVolume(TargetPath("/kubelet/other")));
  EXPECT_THAT(*volumes_.ListTargets(), ElementsAre(kTarget));
}

TEST_F(DirectVolumeTest, WhatAnInterruptedWriteLeftIsNoSandbox) {
  std::filesystem::create_directories(own_);
  std::ofstream(own_ + "/.mountInfo.json.tmp-abcdef") << "{";
  EXPECT_THAT(*volumes_.ListSandboxes(kTarget), IsEmpty());
  ASSERT_OK(volumes_.WriteVolume(kTarget, MakeMountInfo(MakeTestPlan({}))));
  EXPECT_FALSE(std::filesystem::exists(own_ + "/.mountInfo.json.tmp-abcdef"));
}

TEST_F(DirectVolumeTest, ARemovedVolumeLeavesNothing) {
  ASSERT_OK(volumes_.WriteVolume(kTarget, MakeMountInfo(MakeTestPlan({}))));
  std::ofstream(own_ + "/sandbox-1") << "";
  EXPECT_THAT(*volumes_.ListSandboxes(kTarget), ElementsAre(rpc::SandboxId("sandbox-1")));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(volumes_.RemoveVolume(kTarget));
    EXPECT_FALSE(std::filesystem::exists(own_));
  }
  EXPECT_THAT(*volumes_.ListSandboxes(kTarget), IsEmpty());
}

TEST_F(DirectVolumeTest, AWrittenFileIsNotWrittenAgain) {
  ASSERT_OK(volumes_.WriteVolume(kTarget, MakeMountInfo(MakeTestPlan({}))));
  struct stat before;
  ASSERT_EQ(stat((own_ + "/mountInfo.json").c_str(), &before), 0);
  ASSERT_OK(volumes_.WriteVolume(kTarget, MakeMountInfo(MakeTestPlan({}))));
  struct stat after;
  ASSERT_EQ(stat((own_ + "/mountInfo.json").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST(MountInfoTest, OfReadOnlyAndWritableTheLastCounts) {
  EXPECT_EQ(MakeMountInfo(MakeTestPlan({"rw", "noatime", "ro"}))["options"],
            Json({"noatime", "ro"}));
  EXPECT_FALSE(MakeMountInfo(MakeTestPlan({"ro", "rw"})).contains("options"));
}

TEST(MountInfoTest, AGroupIsHandedToTheAgentUnlessTheVolumeIsOnlyRead) {
  const Json always = MakeMountInfo(MakeTestPlan({}, {ApplyGroup{.group = 4242}}));
  EXPECT_EQ(always["metadata"], Json({{"fsGroup", "4242"}, {"fsGroupChangePolicy", "Always"}}));
  const Json mismatch = MakeMountInfo(
      MakeTestPlan({}, {ApplyGroup{.group = 4294967294u, .only_on_root_mismatch = true}}));
  EXPECT_EQ(mismatch["metadata"],
            Json({{"fsGroup", "4294967294"}, {"fsGroupChangePolicy", "OnRootMismatch"}}));
  EXPECT_FALSE(
      MakeMountInfo(MakeTestPlan({"ro"}, {ApplyGroup{.group = 4242}})).contains("metadata"));
}

}  // namespace
}  // namespace berth::crust::kata
