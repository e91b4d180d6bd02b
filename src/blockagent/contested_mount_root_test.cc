// Mounts while others act: they take the volume, delete its cluster, or want its image by another
// name.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <latch>
#include <thread>

#include "blockagent/attachments.h"
#include "blockagent/fake_site.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using base::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ContestedMountTest : public testing::Test {
 protected:
  std::string Refusal(const base::Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    return std::string(base::Message(status));
  }
  void ExpectNothingLeft(Attachments& agent, const std::string& volume) {
    EXPECT_THAT(agent.ListVolumes(), IsEmpty());
    EXPECT_THAT(site_.Fence(volume), IsEmpty());
    EXPECT_EQ(site_.Devices(volume), 0u);
  }
  static api::FenceEntry EntryOf(const MountCall& call, const std::string& node) {
    return {.node = node,
            .pod_namespace = call.pod_namespace,
            .pod = call.pod,
            .pod_uid = call.pod_uid,
            .mount_dir = call.mount_dir,
            .cluster_name = "main"};
  }
  // The fence names that pod alone.
  void GiveTo(const MountCall& call, const std::string& node) {
    api::VolumeFence fence;
    fence.Set({"apiVersion"}, "storage.berth.dev/v1alpha1");
    fence.Set({"kind"}, "VolumeFence");
    fence.set_name(call.volume);
    fence.set_entries({EntryOf(call, node)});
    site_.client.Add(fence);
  }
  // Something that has a file of the volume open, and whether it can still write.
  static base::UniqueFd OpenFile(const MountCall& call) {
    return base::UniqueFd(
        open((call.mount_dir + "/open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  static bool Writes(const base::UniqueFd& file) {
    return write(file.get(), "late", 4) == 4 && fsync(file.get()) == 0;
  }

  FakeSite site_;
};

TEST_F(ContestedMountTest, WhatIsMountedStaysOnRecordWhenAnotherWinsTheFence) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  const MountCall other = site_.AddPod("n2", "other", "pv-1");
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  site_.client.Remove(api::kinds::kVolumeFence, "", "pv-1");
  // Whoever takes a volume away says so to the old node.
  site_.client.before_fence_write = [&] {
    GiveTo(other, "n2");
    ASSERT_TRUE(
        AddCleanups(site_.client, "n1", {{.volume = "pv-1", .attachment = EntryOf(call, "n1")}})
            .ok());
  };
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("'default/other'"));
  ASSERT_TRUE(site_.MountAt(call.mount_dir).has_value());
  ASSERT_THAT(agent->ListVolumes(), ElementsAre("pv-1")) << "else nobody takes it off";
  const base::UniqueFd file = OpenFile(call);
  ASSERT_TRUE(file.valid());
  ASSERT_TRUE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  EXPECT_FALSE(Writes(file));
  EXPECT_THAT(agent->ListVolumes(), IsEmpty());
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
}

TEST_F(ContestedMountTest, WhoeverIsKeptOutAtTheSecondTryLeavesNoTrace) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  const MountCall other = site_.AddPod("n2", "other", "pv-1");
  site_.client.before_fence_write = [&] { GiveTo(other, "n2"); };
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("'default/other'"));
  EXPECT_THAT(agent->ListVolumes(), IsEmpty());
}

TEST_F(ContestedMountTest, NothingIsMountedOfAClusterThatIsDeletedMeanwhile) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  const base::Json cluster = site_.client.Peek(api::kinds::kStorageCluster, "", "main");
  base::Json deleting = cluster;
  deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  site_.client.before_fence_write = [&] { site_.client.Add(deleting); };
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("is being deleted"));
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  ExpectNothingLeft(*agent, "pv-1");

  site_.client.Add(cluster);
  site_.client.before_fence_write = [&] {
    site_.client.Remove(api::kinds::kStorageCluster, "", "main");
  };
  EXPECT_THAT(Refusal(agent->Mount(call, FakeSite::Soon())), HasSubstr("does not exist"));
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  ExpectNothingLeft(*agent, "pv-1");

  site_.client.Add(cluster);
  ASSERT_TRUE(agent->Mount(call, FakeSite::Soon()).ok());
  ASSERT_TRUE(agent->Unmount(call.mount_dir, FakeSite::Soon()).ok());
}

TEST_F(ContestedMountTest, OneImageIsNotMountedAsTwoVolumes) {
  site_.AddVolume("pv-1");
  site_.AddVolumeOf("pv-1", "by-hand");
  auto agent = site_.Start("n1");
  const MountCall one = site_.AddPod("n1", "one", "pv-1");
  const MountCall two = site_.AddPod("n1", "two", "by-hand");
  ASSERT_TRUE(agent->Mount(one, FakeSite::Soon()).ok());
  EXPECT_THAT(Refusal(agent->Mount(two, FakeSite::Soon())), HasSubstr("volume 'pv-1'"));
  EXPECT_FALSE(site_.MountAt(two.mount_dir).has_value());
  EXPECT_THAT(site_.Fence("by-hand"), IsEmpty());
  EXPECT_THAT(agent->ListVolumes(), ElementsAre("pv-1"));
  // Nor is it taken off as the other, whose fence a lost record left.
  GiveTo(two, "n1");
  ASSERT_TRUE(agent
                  ->TakeEntryOff({.volume = "by-hand",
                                  .attachment = EntryOf(two, "n1"),
                                  .cluster_name = "main",
                                  .image = "pv-1"},
                                 {.on = true}, FakeSite::Soon())
                  .ok());
  EXPECT_THAT(site_.Fence("by-hand"), IsEmpty());
  const base::UniqueFd file = OpenFile(one);
  EXPECT_TRUE(Writes(file));
  ASSERT_TRUE(agent->Find("pv-1")->mapping.has_value());
  EXPECT_EQ(site_.Devices("pv-1"), 1u);
}

TEST_F(ContestedMountTest, OfTwoVolumesOfOneImageThatComeAtOnceOneIsMounted) {
  site_.AddVolume("pv-1");
  site_.AddVolumeOf("pv-1", "by-hand");
  auto agent = site_.Start("n1");
  const MountCall calls[] = {site_.AddPod("n1", "one", "pv-1"),
                             site_.AddPod("n1", "two", "by-hand")};
  for (int round = 0; round < 5; ++round) {
    std::array<base::Status, 2> mounted;
    {
      std::latch both(2);
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < mounted.size(); ++i) {
        threads.emplace_back([&, i] {
          both.arrive_and_wait();
          mounted[i] = agent->Mount(calls[i], FakeSite::Soon());
        });
      }
    }
    ASSERT_EQ(std::ranges::count_if(mounted, [](const auto& one) { return one.ok(); }), 1)
        << mounted[0] << "; " << mounted[1];
    for (size_t i = 0; i < mounted.size(); ++i) {
      if (!mounted[i].ok()) EXPECT_THAT(Refusal(mounted[i]), HasSubstr(calls[1 - i].volume));
      ASSERT_TRUE(agent->Unmount(calls[i].mount_dir, FakeSite::Soon()).ok());
    }
    EXPECT_THAT(agent->ListVolumes(), IsEmpty());
  }
}

TEST_F(ContestedMountTest, OneImageAfterTheOtherVolumeLetGoOfIt) {
  site_.AddVolume("pv-1");
  site_.AddVolumeOf("pv-1", "by-hand");
  auto agent = site_.Start("n1");
  const MountCall one = site_.AddPod("n1", "one", "pv-1");
  const MountCall two = site_.AddPod("n1", "two", "by-hand");
  for (const MountCall* call : {&one, &two, &one}) {
    ASSERT_TRUE(agent->Mount(*call, FakeSite::Soon()).ok());
    ASSERT_TRUE(agent->Unmount(call->mount_dir, FakeSite::Soon()).ok());
  }
}

TEST_F(ContestedMountTest, APodThatLostTheVolumeWritesNoMoreOnceAnotherOfItsNodeHasIt) {
  for (const char* mode : {"ReadWriteOnce", "ReadWriteMany"}) {
    SCOPED_TRACE(mode);
    const std::string volume = mode == std::string("ReadWriteOnce") ? "pv-1" : "pv-2";
    site_.AddVolume(volume, 64, {mode});
    auto agent = site_.Start("n1");
    const MountCall lost = site_.AddPod("n1", "lost", volume);
    const MountCall next = site_.AddPod("n1", "next", volume);
    ASSERT_TRUE(agent->Mount(lost, FakeSite::Soon()).ok());
    base::UniqueFd file = OpenFile(lost);
    ASSERT_TRUE(Writes(file));
    ASSERT_TRUE(BreakFence(site_.client, api::VolumeName(volume), "a test").ok());
    // It fails while the kernel keeps the device, and with it the image's lock, for the first.
    const base::Status early = agent->Mount(next, FakeSite::Soon());
    EXPECT_FALSE(Writes(file)) << early;
    EXPECT_FALSE(site_.MountAt(lost.mount_dir).has_value());
    EXPECT_THAT(site_.events.told(), Contains(HasSubstr("Pod FenceLost")));
    file.Reset();
    const base::Status mounted = agent->Mount(next, FakeSite::Soon());
    ASSERT_TRUE(mounted.ok()) << mounted;
    ASSERT_THAT(site_.Fence(volume), SizeIs(1));
    EXPECT_EQ(site_.Fence(volume)[0].pod_uid, next.pod_uid);
    ASSERT_TRUE(agent->Unmount(next.mount_dir, FakeSite::Soon()).ok());
    ExpectNothingLeft(*agent, volume);
  }
}

}  // namespace
}  // namespace berth::blockagent
