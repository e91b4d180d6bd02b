// Fences that are lost while their volumes are in use: the object is deleted, its kind is installed
// again, or an older backup is restored.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "blockagent/fake_site.h"
#include "blockagent/fence.h"

namespace berth::blockagent {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class LostFenceTest : public testing::Test {
 protected:
  static base::UniqueFd OpenFile(const MountCall& call) {
    return base::UniqueFd(
        open((call.mount_dir + "/open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  static bool Writes(const base::UniqueFd& file) {
    return write(file.get(), "data", 4) == 4 && fsync(file.get()) == 0;
  }
  void DeleteFence(const std::string& volume) {
    site_.client.Remove(api::kinds::kVolumeFence, "", volume);
  }
  // Writes a fence as somebody else left it: with one entry, of a pod on that node.
  void PutFenceOf(const std::string& volume, const std::string& node) {
    DeleteFence(volume);
    api::VolumeFence fence({{"apiVersion", "storage.berth.dev/v1alpha1"},
                            {"kind", "VolumeFence"},
                            {"metadata", {{"name", volume}}}});
    fence.set_entries({{.node = node,
                        .pod_namespace = "default",
                        .pod = "other",
                        .pod_uid = "other-uid",
                        .mount_dir = "/elsewhere",
                        .read_only = false,
                        .cluster_name = "main"}});
    site_.client.Add(fence.json());
  }

  FakeSite site_;
};

TEST_F(LostFenceTest, AFenceThatSomebodyDeletesIsWrittenAgainAndTheWriterSeesNoError) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  const base::UniqueFd file = OpenFile(call);
  ASSERT_TRUE(Writes(file));
  DeleteFence("pv-1");
  // The agent may have been started anew meanwhile.
  agent = site_.Start("n1");
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_TRUE(Writes(file));
  EXPECT_TRUE(site_.MountAt(call.mount_dir).has_value());
  ASSERT_THAT(site_.Fence("pv-1"), SizeIs(1));
  EXPECT_EQ(site_.Fence("pv-1")[0].pod_uid, call.pod_uid);
  EXPECT_EQ(site_.Fence("pv-1")[0].node, "n1");
  EXPECT_THAT(site_.events.told(), Contains(HasSubstr("Pod FenceRestored")));
  EXPECT_THAT(site_.events.told(), Contains(HasSubstr("PersistentVolume FenceRestored")));
  EXPECT_THAT(site_.events.told(), Not(Contains(HasSubstr("FenceLost"))));
}

TEST_F(LostFenceTest, AllPodsOfANodeThatShareAVolumeAreNamedAgain) {
  site_.AddVolume("pv-1", 64, {"ReadWriteMany"});
  auto agent = site_.Start("n1");
  const MountCall one = site_.AddPod("n1", "one", "pv-1");
  const MountCall two = site_.AddPod("n1", "two", "pv-1");
  ASSERT_OK(agent->Mount(one, FakeSite::Soon()));
  ASSERT_OK(agent->Mount(two, FakeSite::Soon()));
  DeleteFence("pv-1");
  // The next pod settles what the fence lacks before it comes in.
  const MountCall three = site_.AddPod("n1", "three", "pv-1");
  ASSERT_OK(agent->Mount(three, FakeSite::Soon()));
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(3));
  for (const MountCall* call : {&one, &two, &three}) {
    EXPECT_TRUE(Writes(OpenFile(*call)));
  }
}

TEST_F(LostFenceTest, WithoutItsVolumesObjectTheUseIsStillKept) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  DeleteFence("pv-1");
  site_.client.Remove(api::kinds::kPersistentVolume, "", "pv-1");
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_TRUE(Writes(OpenFile(call)));
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
}

TEST_F(LostFenceTest, AnothersEntryIsAReasonToTakeTheVolumeOffByForce) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  const base::UniqueFd file = OpenFile(call);
  ASSERT_TRUE(Writes(file));
  PutFenceOf("pv-1", "n2");
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_FALSE(Writes(file));
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  EXPECT_THAT(agent->ListVolumes(), IsEmpty());
  EXPECT_EQ(site_.Fence("pv-1")[0].node, "n2");
  EXPECT_THAT(site_.events.told(), Contains(HasSubstr("Pod FenceLost")));
}

TEST_F(LostFenceTest, AnotherThatIsFasterKeepsTheFence) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  const base::UniqueFd file = OpenFile(call);
  DeleteFence("pv-1");
  site_.client.before_fence_write = [&] { PutFenceOf("pv-1", "n2"); };
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_FALSE(Writes(file));
  EXPECT_EQ(site_.Fence("pv-1")[0].node, "n2");
}

TEST_F(LostFenceTest, ThePodIsGoneToo) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  DeleteFence("pv-1");
  site_.RemovePod("web");
  {
    const base::UniqueFd file = OpenFile(call);
    // Its processes may still be ending: nothing is taken from them.
    EXPECT_TRUE(*agent->Reconcile("pv-1", FakeSite::Soon()));
    EXPECT_TRUE(Writes(file));
  }
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_FALSE(site_.MountAt(call.mount_dir).has_value());
  EXPECT_THAT(agent->ListVolumes(), IsEmpty());
  EXPECT_THAT(site_.events.told(), Not(Contains(HasSubstr("FenceLost"))));
}

TEST_F(LostFenceTest, NothingIsTakenWhileTheApiDoesNotAnswer) {
  site_.AddVolume("pv-1");
  auto agent = site_.Start("n1");
  const MountCall call = site_.AddPod("n1", "web", "pv-1");
  ASSERT_OK(agent->Mount(call, FakeSite::Soon()));
  const base::UniqueFd file = OpenFile(call);
  DeleteFence("pv-1");
  site_.client.SetOutage(base::Error(base::StatusCode::kUnavailable, "the API is away"));
  EXPECT_FALSE(agent->Reconcile("pv-1", FakeSite::Soon()).ok());
  EXPECT_TRUE(Writes(file));
  site_.client.SetOutage(base::OkStatus());
  ASSERT_OK(agent->Reconcile("pv-1", FakeSite::Soon()).status());
  EXPECT_TRUE(Writes(file));
  EXPECT_THAT(site_.Fence("pv-1"), SizeIs(1));
}

}  // namespace
}  // namespace berth::blockagent
