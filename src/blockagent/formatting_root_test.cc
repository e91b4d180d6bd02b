// A mkfs that is cut short on one node, and who has the volume next.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/fake_faults.h"
#include "blockagent/fake_site.h"

namespace berth::blockagent {
namespace {

using testing::HasSubstr;

class FormattingTest : public testing::Test {
 protected:
  // The node dies when its mkfs has run: what it wrote, and its record, stay.
  void CutShort(const std::string& node, const MountCall& call) {
    auto agent = site_.Start(node);
    {
      const base::FakeFaults faults("blockagent.format.after=error@1");
      EXPECT_FALSE(agent->Mount(call, FakeSite::Soon()).ok());
    }
    const auto backend = site_.BackendOf(node);
    ASSERT_TRUE(backend->Unmap(**backend->FindMapping(call.volume)).ok());
    EXPECT_NE(*backend->ReadFormatting(call.volume), "");
  }
  // What a mkfs leaves that had not come to its end: no superblock, or one of which the rest is
  // missing.
  void Spoil(const std::string& volume, off_t from) {
    const base::UniqueFd image(open((site_.images() + "/" + volume).c_str(), O_WRONLY | O_CLOEXEC));
    const std::string junk(512 << 10, '\x5a');
    ASSERT_EQ(pwrite(image.get(), junk.data(), junk.size(), from),
              static_cast<ssize_t>(junk.size()));
  }
  void Write(const MountCall& call, const std::string& text) {
    std::ofstream file(call.mount_dir + "/note");
    file << text << std::flush;
    EXPECT_TRUE(file.good());
  }
  static std::string Read(const MountCall& call) {
    return platform::ReadFile(call.mount_dir + "/note").value_or("(none)");
  }

  FakeSite site_;
};

TEST_F(FormattingTest, TheNextNodeMakesItAnew) {
  int round = 0;
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    for (const off_t spoiled : {0, 128 << 10}) {
      SCOPED_TRACE(fmt::format("{} from {}", type, spoiled));
      const std::string volume = fmt::format("pv-{}", ++round);
      site_.AddVolume(volume, 320, {"ReadWriteOnce"}, type);
      const MountCall first = site_.AddPod("n2", "first", volume);
      CutShort("n2", first);
      Spoil(volume, spoiled);
      site_.RemovePod("first");
      auto agent = site_.Start("n1");
      const MountCall next = site_.AddPod("n1", "next", volume);
      EXPECT_THAT(std::string(base::Message(agent->Mount(next, FakeSite::Soon()))),
                  HasSubstr("Lease has not expired"));
      site_.now += std::chrono::minutes(1);
      {
        // It dies as well.
        const base::FakeFaults faults("blockagent.format.cleared=error@1");
        EXPECT_THAT(std::string(base::Message(agent->Mount(next, FakeSite::Soon()))),
                    HasSubstr("blockagent.format.cleared"));
        agent = site_.Start("n1");
      }
      const base::Status mounted = agent->Mount(next, FakeSite::Soon());
      ASSERT_TRUE(mounted.ok()) << mounted;
      EXPECT_EQ(site_.MountAt(next.mount_dir)->fs_type, type);
      EXPECT_EQ(*site_.BackendOf("n1")->ReadFormatting(volume), "");
      Write(next, "kept");
      ASSERT_TRUE(agent->Unmount(next.mount_dir, FakeSite::Soon()).ok());
      ASSERT_TRUE(agent->Mount(next, FakeSite::Soon()).ok());
      EXPECT_EQ(Read(next), "kept");
      ASSERT_TRUE(agent->Unmount(next.mount_dir, FakeSite::Soon()).ok());
      site_.RemovePod("next");
    }
  }
}

TEST_F(FormattingTest, WhatWasNeverBegunHereIsLeftAsItIs) {
  site_.AddVolume("pv-1");
  Spoil("pv-1", 0);
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  const base::Status mounted = agent->Mount(call, FakeSite::Soon());
  EXPECT_EQ(mounted.code(), base::StatusCode::kFailedPrecondition) << mounted;
  EXPECT_EQ(platform::ReadFile(site_.images() + "/pv-1", 128 << 20)->substr(0, 4), "ZZZZ");
  site_.RemovePod("web");
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
}

// The old node's record still tells of a mkfs, and of the very UUID that the file system has.
TEST_F(FormattingTest, WhatAnotherNodeUsedMeanwhileIsNotMadeAnew) {
  site_.AddVolume("pv-1");
  const MountCall first = site_.AddPod("n2", "first", "pv-1");
  CutShort("n2", first);
  ASSERT_TRUE(BreakFence(site_.client, api::VolumeName("pv-1"), "a test").ok());
  auto agent = site_.Start("n1");
  const MountCall next = site_.AddPod("n1", "next", "pv-1");
  ASSERT_TRUE(agent->Mount(next, FakeSite::Soon()).ok());
  Write(next, "kept");
  ASSERT_TRUE(agent->Unmount(next.mount_dir, FakeSite::Soon()).ok());
  auto old_node = site_.Start("n2");
  ASSERT_EQ(old_node->ListVolumes().size(), 1u);
  const base::Status mounted = old_node->Mount(first, FakeSite::Soon());
  ASSERT_TRUE(mounted.ok()) << mounted;
  EXPECT_EQ(Read(first), "kept");
  ASSERT_TRUE(old_node->Unmount(first.mount_dir, FakeSite::Soon()).ok());
}

}  // namespace
}  // namespace berth::blockagent
