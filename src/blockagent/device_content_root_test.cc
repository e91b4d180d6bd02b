#include <gtest/gtest.h>

#include "blockagent/device_content.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"

namespace berth::blockagent {
namespace {

TEST(DeviceContentTest, ADeviceThatNeverAnswersHoldsNobodyUp) {
  const platform::TempFolder folder;
  ASSERT_TRUE(platform::MakeFolders(folder / "lost").ok());
  const auto lost = platform::LostMount::Make(folder / "lost");
  ASSERT_TRUE(lost.ok()) << lost.status();
  const auto exec = platform::NewHostExec();
  const base::Status grown =
      GrowContent(*exec, {.device = folder / "lost/device", .device_bytes = 1 << 20}, "ext4");
  EXPECT_EQ(grown.code(), base::StatusCode::kDeadlineExceeded) << grown;
}

}  // namespace
}  // namespace berth::blockagent
