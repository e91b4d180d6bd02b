#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>

#include "base/fake_faults.h"
#include "blockagent/attachments.h"
#include "blockagent/fake_site.h"
#include "platform/file_systems/file_system.h"
#include "platform/processes/capabilities.h"

namespace berth::blockagent {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AttachmentsTest : public testing::Test {
 protected:
  void Write(const MountCall& call, const std::string& text) {
    std::ofstream file(call.mount_dir + "/note");
    file << text << std::flush;
    EXPECT_TRUE(file.good());
  }
  static std::string Read(const MountCall& call) {
    return platform::ReadFile(call.mount_dir + "/note").value_or("(none)");
  }
  void ExpectNothingLeft(Attachments& agent, const std::string& volume) {
    EXPECT_THAT(agent.ListVolumes(), IsEmpty());
    EXPECT_THAT(site_.Fence(volume), IsEmpty());
    EXPECT_EQ(site_.Devices(volume), 0u);
  }
  std::string Refusal(const base::Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    return std::string(base::Message(status));
  }

  // What the kernel wants of who grows an ext4 that is mounted.
  static bool MayGrowMounted() { return platform::HasCapability(CAP_SYS_RESOURCE); }

  FakeSite site_;
};

TEST_F(AttachmentsTest, MountsAndTakesOffAgain) {
  for (const char* type : {"ext4", "xfs", "btrfs"}) {
    const std::string volume = std::string("pv-") + type;
    site_.AddVolume(volume, 320, {"ReadWriteOnce"}, type);
    auto agent = site_.Start("n1");
    const MountCall call = site_.AddPod("n1", "web", volume);
    ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
    const auto mount = site_.MountAt(call.mount_dir);
    ASSERT_TRUE(mount.has_value());
    EXPECT_EQ(mount->fs_type, type);
    ASSERT_THAT(site_.Fence(volume), SizeIs(1));
    EXPECT_EQ(site_.Fence(volume)[0].mount_dir, call.mount_dir);
    const auto fence = site_.client.Peek(api::kinds::kVolumeFence, "", volume);
    EXPECT_EQ(fence["status"]["devices"][0]["devicePath"], mount->source);
    Write(call, "kept");
    // A second call does no harm.
    ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
    ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
    EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
    ExpectNothingLeft(*agent, volume);
    ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
    const MountCall next = site_.AddPod("n1", "web", volume);
    ASSERT_TRUE(agent->Mount(next, FakeSite::Soon()).ok());
    EXPECT_EQ(Read(next), "kept");
    ASSERT_TRUE(agent->Unmount(next.mount_dir, FakeSite::Soon()).ok());
  }
}

// A step fails, the agent is started anew, and the call is repeated; for every step by its name.
TEST_F(AttachmentsTest, IsGoneOnWithFromAnyStep) {
  std::vector<std::string> points;
  for (const std::string& name : base::ListFaultPoints()) {
    if (name.starts_with("blockagent.")) points.push_back(name);
  }
  ASSERT_GT(points.size(), 20u);
  int round = 0;
  for (const std::string& point : points) {
    SCOPED_TRACE(point);
    const std::string volume = fmt::format("pv-{}", ++round);
    site_.AddVolume(volume, 32);
    const MountCall call = site_.AddPod("n1", "web", volume);
    for (const bool at_unmount : {false, true}) {
      auto agent = site_.Start("n1");
      if (!at_unmount) {
        const base::FakeFaults faults((point + "=error@1").c_str());
        static_cast<void>(agent->Mount(call, FakeSite::Soon()));
      }
      agent = site_.Start("n1");
      const base::Status mounted = agent->Mount(call, FakeSite::Soon());
      ASSERT_TRUE(mounted.ok()) << mounted;
      ASSERT_TRUE(site_.MountAt(call.mount_dir).has_value());
      ASSERT_THAT(site_.Fence(volume), SizeIs(1));
      if (at_unmount) {
        const base::FakeFaults faults((point + "=error@1").c_str());
        static_cast<void>(agent->Unmount(call.mount_dir, FakeSite::Soon()));
      }
      agent = site_.Start("n1");
      const base::Status unmounted = agent->Unmount(call.mount_dir, FakeSite::Soon());
      ASSERT_TRUE(unmounted.ok()) << unmounted;
      ASSERT_FALSE(site_.MountAt(call.mount_dir).has_value());
      ExpectNothingLeft(*agent, volume);
    }
    site_.RemovePod("web");
  }
}

// As above, and nobody repeats the call: the pod is deleted instead.
TEST_F(AttachmentsTest, WhatAPodThatIsGoneLeftIsTakenOffFromAnyStep) {
  std::vector<std::string> points;
  for (const std::string& name : base::ListFaultPoints()) {
    if (name.starts_with("blockagent.")) points.push_back(name);
  }
  int round = 0;
  for (const std::string& point : points) {
    SCOPED_TRACE(point);
    const std::string volume = fmt::format("pv-{}", ++round);
    site_.AddVolume(volume, 32);
    const MountCall call = site_.AddPod("n1", "web", volume);
    {
      auto agent = site_.Start("n1");
      const base::FakeFaults faults((point + "=error@1").c_str());
      static_cast<void>(agent->Mount(call, FakeSite::Soon()));
    }
    site_.RemovePod("web");
    auto agent = site_.Start("n1");
    for (const std::string& one : agent->ListVolumes()) {
      const auto again = agent->Reconcile(one, FakeSite::Soon());
      ASSERT_TRUE(again.ok()) << again.status();
    }
    ASSERT_FALSE(site_.MountAt(call.mount_dir).has_value());
    ExpectNothingLeft(*agent, volume);
  }
}

TEST_F(AttachmentsTest, NeverFormatsWhatHoldsSomethingElse) {
  site_.AddVolume("pv-1");
  const std::string image = site_.images() + "/pv-1";
  {
    std::fstream file(image, std::ios::in | std::ios::out | std::ios::binary);
    file.write("LUKS\xba\xbe\0\1", 8);
  }
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("crypto_LUKS"));
  std::ifstream file(image, std::ios::binary);
  std::string head(4, '\0');
  file.read(head.data(), 4);
  EXPECT_EQ(head, "LUKS");
  // Everything is removed with the pod.
  site_.RemovePod("web");
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AReaderWritesNothing) {
  site_.AddVolume("pv-1", 64, {"ReadOnlyMany", "ReadWriteOnce"});
  auto agent = site_.Start("n1");
  const MountCall early = site_.AddPod("n1", "early", "pv-1", true);
  EXPECT_THAT(Refusal(agent->Mount(early, FakeSite::Soon())), HasSubstr("blank"));
  site_.RemovePod("early");
  const MountCall writer = site_.AddPod("n1", "writer", "pv-1");
  ASSERT_TRUE(agent->Mount(writer, FakeSite::Soon()).ok());
  Write(writer, "kept");
  const MountCall one = site_.AddPod("n1", "one", "pv-1", true);
  EXPECT_THAT(Refusal(agent->Mount(one, FakeSite::Soon())), HasSubstr("'default/writer'"));
  ASSERT_TRUE(agent->Unmount(writer.mount_dir, FakeSite::Soon()).ok());
  auto other = site_.Start("n2");
  const MountCall two = site_.AddPod("n2", "two", "pv-1", true);
  ASSERT_TRUE(agent->Mount(one, FakeSite::Soon()).ok());
  ASSERT_TRUE(other->Mount(two, FakeSite::Soon()).ok());
  for (const MountCall* call : {&one, &two}) {
    EXPECT_EQ(Read(*call), "kept");
    EXPECT_TRUE(site_.MountAt(call->mount_dir)->read_only());
    EXPECT_FALSE(std::ofstream(call->mount_dir + "/x").good());
  }
  EXPECT_EQ(site_.Devices("pv-1"), 2u);
  ASSERT_TRUE(agent->Unmount(one.mount_dir, FakeSite::Soon()).ok());
  ASSERT_TRUE(other->Unmount(two.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, PodsOfOneNodeShareAReadWriteManyVolume) {
  site_.AddVolume("pv-1", 64, {"ReadWriteMany"});
  auto agent = site_.Start("n1");
  const MountCall one = site_.AddPod("n1", "one", "pv-1");
  const MountCall two = site_.AddPod("n1", "two", "pv-1", true);
  ASSERT_TRUE(agent->Mount(two, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Mount(one, FakeSite::Soon()).ok());
  Write(one, "shared");
  EXPECT_EQ(Read(two), "shared");
  EXPECT_FALSE(std::ofstream(two.mount_dir + "/x").good());
  EXPECT_EQ(site_.Devices("pv-1"), 1u);
  auto other = site_.Start("n2");
  const MountCall three = site_.AddPod("n2", "three", "pv-1");
  EXPECT_THAT(Refusal(other->Mount(three, FakeSite::Soon())), HasSubstr("two nodes"));
  EXPECT_THAT(other->ListVolumes(), IsEmpty());
  ASSERT_TRUE(agent->Unmount(two.mount_dir, FakeSite::Soon()).ok());
  Write(one, "still");
  ASSERT_TRUE(agent->Unmount(one.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AVolumeGrowsWithItsImage) {
  site_.AddVolume("pv-1", 64);
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  const auto megabytes = [&] {
    struct statvfs info{};
    EXPECT_EQ(statvfs(call.mount_dir.c_str(), &info), 0);
    return info.f_blocks * info.f_frsize >> 20;
  };
  EXPECT_LT(megabytes(), 64u);
  ASSERT_TRUE(site_.BackendOf("operator")->Grow("pv-1", 128 << 20).ok());
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  if (MayGrowMounted()) {
    EXPECT_GT(megabytes(), 100u);
  } else {
    std::cout << "growing while mounted: skipped, this process lacks CAP_SYS_RESOURCE\n";
  }
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  // It grows at the next mount, too.
  ASSERT_TRUE(site_.BackendOf("operator")->Grow("pv-1", 192 << 20).ok());
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  EXPECT_GT(megabytes(), 160u);
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, AnAgentEndsWhileAVolumeWaitsForItsImageToGrow) {
  site_.AddVolume("pv-1", 64);
  site_.image_patience = std::chrono::minutes(5);
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  auto waits = std::async(std::launch::async, [&] {
    return agent->Expand(call.mount_dir, 512 << 20, FakeSite::Soon());
  });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  agent->EndWaits();
  EXPECT_EQ(base::Message(waits.get()), "the block agent is being stopped");
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, AClaimIsNotToldDoneWhileItsImageIsSmaller) {
  // The kernel grows a mounted xfs for every process that may mount one.
  site_.AddVolume("pv-1", 320, {"ReadWriteOnce"}, "xfs");
  site_.image_patience = std::chrono::milliseconds(150);
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  EXPECT_THAT(Refusal(agent->Expand(call.mount_dir, 320 << 20, FakeSite::Soon())),
              HasSubstr("is not mounted at"));
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  EXPECT_TRUE(agent->Expand(call.mount_dir, 320 << 20, FakeSite::Soon()).ok());
  const base::Status early = agent->Expand(call.mount_dir, 512 << 20, FakeSite::Soon());
  EXPECT_EQ(early.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(early), HasSubstr("still has 320Mi, and 512Mi is wanted"));

  // The image grows while the call waits for it.
  site_.image_patience = std::chrono::seconds(20);
  agent = site_.Start("n1");
  auto late = std::async(std::launch::async, [&] {
    return agent->Expand(call.mount_dir, 512 << 20, FakeSite::Soon());
  });
  EXPECT_EQ(late.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  ASSERT_TRUE(site_.BackendOf("operator")->Grow("pv-1", 512 << 20).ok());
  const base::Status grown = late.get();
  EXPECT_TRUE(grown.ok()) << grown;
  struct statvfs info{};
  ASSERT_EQ(statvfs(call.mount_dir.c_str(), &info), 0);
  EXPECT_GT(info.f_blocks * info.f_frsize >> 20, 400u);
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, AGrowthKeepsNoReaderFromItsVolume) {
  site_.AddVolume("pv-1", 64, {"ReadOnlyMany", "ReadWriteOnce"});
  site_.image_patience = std::chrono::milliseconds(150);
  auto agent = site_.Start("n1");
  const MountCall writer = site_.AddPod("n1", "writer", "pv-1");
  ASSERT_TRUE(agent->Mount(writer, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Unmount(writer.mount_dir, FakeSite::Soon()).ok());
  const MountCall reader = site_.AddPod("n1", "reader", "pv-1", true);
  ASSERT_TRUE(agent->Mount(reader, FakeSite::Soon()).ok());
  EXPECT_EQ(agent->Expand(reader.mount_dir, 128 << 20, FakeSite::Soon()).code(),
            StatusCode::kUnavailable);
  ASSERT_TRUE(site_.BackendOf("operator")->Grow("pv-1", 128 << 20).ok());
  const base::Status told = agent->Expand(reader.mount_dir, 128 << 20, FakeSite::Soon());
  EXPECT_TRUE(told.ok()) << told;
  ASSERT_TRUE(agent->Unmount(reader.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, UnmountFindsAVolumeWhoseRecordIsLost) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  agent.reset();
  fs::remove_all(site_.folder / "data-n1");
  agent = site_.Start("n1");
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, UnmountLeavesWhatIsNotOurs) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(
      site_.mounter->Mount({.source = "tmpfs", .target = call.mount_dir, .fs_type = "tmpfs"}).ok());
  EXPECT_THAT(Refusal(agent->Unmount(call.mount_dir, FakeSite::Soon())), HasSubstr("left mounted"));
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("already"));
  ASSERT_TRUE(site_.MountAt(call.mount_dir).has_value());
  ASSERT_TRUE(site_.mounter->Unmount(call.mount_dir).ok());
  EXPECT_TRUE(agent->Unmount("/nowhere/at/all", FakeSite::Soon()).ok());
  site_.RemovePod("web");
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AVolumeThatIsNoLongerOursIsTakenOffAtOnce) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  // A process has a file of the volume open.
  const base::UniqueFd open_file(
      open((call.mount_dir + "/open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(open_file.valid());
  ASSERT_TRUE(BreakFence(site_.client, api::VolumeName("pv-1"), "a test").ok());
  agent = site_.Start("n1");
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  EXPECT_THAT(agent->ListVolumes(), IsEmpty());
  EXPECT_THAT(site_.events.told(), Contains(HasSubstr("Pod FenceLost")));
  const bool written = write(open_file.get(), "late", 4) == 4 && fsync(open_file.get()) == 0;
  EXPECT_FALSE(written) << "what has it open writes no more";
}

TEST_F(AttachmentsTest, ALostFenceIsWrittenAgainUnderAWriter) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  const base::UniqueFd open_file(
      open((call.mount_dir + "/open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto writes = [&] {
    return write(open_file.get(), "line", 4) == 4 && fsync(open_file.get()) == 0;
  };
  const auto restored = [&] {
    return std::ranges::count_if(site_.events.told(), [](const std::string& told) {
      return told.starts_with("Pod FenceRestored");
    });
  };
  ASSERT_TRUE(writes());
  // By itself, by another pod that wants in, and by the kubelet's repeated call.
  const MountCall next = site_.AddPod("n1", "next", "pv-1");
  const std::function<void()> ways[] = {
      [&] { EXPECT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok()); },
      [&] {
        EXPECT_THAT(Refusal(agent->Mount(next, FakeSite::Soon())), HasSubstr("'default/web'"));
      },
      [&] { EXPECT_TRUE(agent->Mount(call, FakeSite::Soon()).ok()); },
      [&] {
        agent = site_.Start("n1");
        EXPECT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
      }};
  int expected = 0;
  for (const auto& way : ways) {
    SCOPED_TRACE(++expected);
    ASSERT_TRUE(site_.client.Remove(api::kinds::kVolumeFence, "", "pv-1"));
    way();
    EXPECT_TRUE(writes());
    ASSERT_THAT(site_.Fence("pv-1"), SizeIs(1));
    EXPECT_EQ(site_.Fence("pv-1")[0].pod_uid, call.pod_uid);
    EXPECT_EQ(restored(), expected);
  }
  EXPECT_THAT(site_.events.told(), testing::Not(Contains(HasSubstr("FenceLost"))));
}

TEST_F(AttachmentsTest, NothingIsForcedWhileTheApiServesNoFences) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  site_.client.StopServing(api::kinds::kVolumeFence);
  static_cast<void>(agent->Reconcile("pv-1", FakeSite::Soon()));
  EXPECT_TRUE(site_.MountAt(call.mount_dir).has_value());
  Write(call, "while it is gone");
  site_.client.Serve(api::kinds::kVolumeFence);
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
  Write(call, "after that");
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AnOlderFenceOfANodeWithoutTheLockTakesNothing) {
  site_.AddVolume("pv-1");
  auto old_node = site_.Start("n2");
  const MountCall before = site_.AddPod("n2", "before", "pv-1");
  ASSERT_TRUE(old_node->Mount(before, FakeSite::Soon()).ok());
  const base::Json older = site_.client.Peek(api::kinds::kVolumeFence, "", "pv-1");
  ASSERT_TRUE(old_node->Unmount(before.mount_dir, FakeSite::Soon()).ok());
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  // As after the restore of a backup.
  site_.client.Add(older);
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  Write(call, "still here");
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(2));
  EXPECT_THAT(site_.events.told(), Contains(AllOf(HasSubstr("FenceRestored"), HasSubstr("'n2'"))));
  EXPECT_THAT(Refusal(old_node->Mount(before, FakeSite::Soon())), HasSubstr("'default/web'"));
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  ASSERT_TRUE(old_node->Mount(before, FakeSite::Soon()).ok());
  ASSERT_TRUE(old_node->Unmount(before.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*old_node, "pv-1");
}

// A node without a fence cannot map what another node has mapped.
TEST_F(AttachmentsTest, WhileTheFenceIsLostTheImagesLockKeepsOthersOut) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  ASSERT_TRUE(site_.client.Remove(api::kinds::kVolumeFence, "", "pv-1"));
  auto other = site_.Start("n2");
  const MountCall wanted = site_.AddPod("n2", "other", "pv-1");
  EXPECT_THAT(Refusal(other->Mount(wanted, FakeSite::Soon())), HasSubstr("lock"));
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  Write(call, "still here");
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(2));
  EXPECT_THAT(Refusal(other->Mount(wanted, FakeSite::Soon())), HasSubstr("'default/web'"));
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  ASSERT_TRUE(other->Mount(wanted, FakeSite::Soon()).ok());
  EXPECT_EQ(Read(wanted), "still here");
  ASSERT_TRUE(other->Unmount(wanted.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*other, "pv-1");
}

TEST_F(AttachmentsTest, WhatIsBusyStaysFenced) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  {
    const base::UniqueFd open_file(
        open((call.mount_dir + "/open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_FALSE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
    EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
  }
  EXPECT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AfterARebootTheFenceStandsUntilPodsAreLookedAt) {
  site_.AddVolume("pv-1");
  site_.AddVolume("pv-2");
  auto agent = site_.Start("n1");
  const MountCall stays = site_.AddPod("n1", "stays", "pv-1");
  const MountCall goes = site_.AddPod("n1", "goes", "pv-2");
  for (const MountCall* call : {&stays, &goes}) {
    ASSERT_TRUE(agent->Mount(*call, FakeSite::Soon()).ok());
    ASSERT_TRUE(site_.mounter->Unmount(call->mount_dir).ok());
    const auto backend = site_.BackendOf("n1");
    ASSERT_TRUE(backend->Unmap(**backend->FindMapping(call->volume)).ok());
    const std::string file = site_.folder / ("data-n1/volumes/" + call->volume + ".json");
    base::Json record = *base::json::Parse(*platform::ReadFile(file));
    record["bootId"] = "an earlier one";
    std::ofstream(file) << base::json::Dump(record);
  }
  site_.RemovePod("goes");
  agent = site_.Start("n1");
  for (const std::string& volume : agent->ListVolumes()) {
    ASSERT_TRUE(agent->Reconcile(volume, FakeSite::Soon()).ok());
  }
  EXPECT_THAT(agent->ListVolumes(), ElementsAre("pv-1"));
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
  EXPECT_THAT(site_.Fence("pv-2"), IsEmpty());
  ASSERT_TRUE(agent->Mount(stays, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Unmount(stays.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, AFailOverWaitsForTheLeaseAndTheBackEndsWord) {
  site_.AddVolume("pv-1");
  auto old_node = site_.Start("n2");
  const MountCall before = site_.AddPod("n2", "db-0", "pv-1");
  ASSERT_TRUE(old_node->Mount(before, FakeSite::Soon()).ok());
  Write(before, "first");
  // There is no Node n2, as after its deletion, but its machine runs.
  auto agent = site_.Start("n1");
  const MountCall after = site_.AddPod("n1", "db-0", "pv-1");
  EXPECT_THAT(Refusal(agent->Mount(after, FakeSite::Soon())), HasSubstr("Lease has not expired"));
  site_.now += std::chrono::minutes(1);
  EXPECT_THAT(Refusal(agent->Mount(after, FakeSite::Soon())), HasSubstr("holds a lock"));
  // The machine is off.
  ASSERT_TRUE(site_.mounter->Unmount(before.mount_dir).ok());
  const auto backend = site_.BackendOf("n2");
  ASSERT_TRUE(backend->Unmap(**backend->FindMapping("pv-1")).ok());
  ASSERT_TRUE(agent->Mount(after, FakeSite::Soon()).ok());
  EXPECT_EQ(Read(after), "first");
  EXPECT_THAT(site_.client.Peek<api::NodeCleanup>("", "n2")->entries(), SizeIs(1));
  EXPECT_THAT(site_.events.told(), Contains(AllOf(HasSubstr("FenceBroken"), HasSubstr("no lock"))));
  // The old node comes back, with its record.
  ASSERT_TRUE(old_node->Reconcile("pv-1", FakeSite::Soon()).ok());
  EXPECT_THAT(old_node->ListVolumes(), IsEmpty());
  Write(after, "second");
  EXPECT_EQ(Read(after), "second");
  ASSERT_TRUE(agent->Unmount(after.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(AttachmentsTest, OnlyThePodOfTheClaimGetsTheVolume) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  MountCall stray = site_.AddPod("n1", "stray", "another-claim");
  stray.volume = "pv-1";
  EXPECT_EQ(agent->Mount(stray, FakeSite::Soon()).code(), StatusCode::kPermissionDenied);
  MountCall inlined = site_.AddPod("n1", "inlined", "no-volume");
  EXPECT_THAT(Refusal(agent->Mount(inlined, FakeSite::Soon())), HasSubstr("inline"));
  MountCall old = site_.AddPod("n1", "web", "pv-1");
  site_.AddPod("n1", "web", "pv-1");
  EXPECT_THAT(Refusal(agent->Mount(old, FakeSite::Soon())), HasSubstr("uid"));
  ExpectNothingLeft(*agent, "pv-1");
}

TEST_F(AttachmentsTest, AClaimOfTheSameNameIsNotTheClaimOfTheVolume) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  const base::Json claim = site_.client.Peek(api::kinds::kPersistentVolumeClaim, "default", "pv-1");
  const base::Json pod = site_.client.Peek(api::kinds::kPod, "default", "web");
  const auto expect_refused = [&](base::Json changed, const char* why) {
    site_.client.Add(std::move(changed));
    const base::Status refused = agent->Mount(call, FakeSite::Soon());
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
    EXPECT_THAT(std::string(base::Message(refused)), HasSubstr(why));
    ExpectNothingLeft(*agent, "pv-1");
    site_.client.Add(claim);
    site_.client.Add(pod);
  };
  base::Json changed = claim;
  changed["metadata"]["uid"] = "made-after-the-first-one-was-deleted";
  expect_refused(changed, "an older claim");
  changed = claim;
  changed["status"]["phase"] = "Pending";
  expect_refused(changed, "the claim is Pending");
  changed = claim;
  changed["spec"]["volumeName"] = "pv-2";
  expect_refused(changed, "'pv-2'");
  changed = pod;
  changed["spec"]["nodeName"] = "n2";
  expect_refused(changed, "the pod is on node 'n2'");
  // The pod's own template would make a claim of this name, but a person made it.
  changed = pod;
  changed["metadata"]["name"] = "pv";
  changed["spec"]["volumes"] = base::Json::array(
      {{{"name", "1"}, {"ephemeral", {{"volumeClaimTemplate", base::Json::object()}}}}});
  MountCall of_template = call;
  of_template.pod = "pv";
  site_.client.Add(changed);
  const base::Status refused = agent->Mount(of_template, FakeSite::Soon());
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("not made from the pod's template"));
  changed = claim;
  changed["metadata"]["ownerReferences"] =
      base::Json::array({{{"kind", "Pod"}, {"uid", call.pod_uid}, {"controller", true}}});
  site_.client.Add(changed);
  ASSERT_TRUE(agent->Mount(of_template, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Unmount(of_template.mount_dir, FakeSite::Soon()).ok());
  site_.client.Add(claim);
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
}

}  // namespace
}  // namespace berth::blockagent
