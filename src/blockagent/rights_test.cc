// An agent needs each right that deploy/block-agent/rbac.yaml gives it, and no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/assert_ok.h"
#include "block/fake_backend.h"
#include "blockagent/agent.h"
#include "blockagent/consumers.h"
#include "blockagent/fake_rights.h"
#include "blockagent/fence.h"
#include "blockagent/node_cleanups.h"
#include "kube/event_recorder.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using base::Json;
using testing::IsEmpty;

class AgentRightsTest : public testing::Test {
 protected:
  AgentRightsTest() { ServeBlockKinds(api_); }

  static FenceEntry Entry(const std::string& node, const std::string& volume) {
    const std::string uid = "uid-" + volume;
    return {.node = node,
            .pod_namespace = "default",
            .pod = "db",
            .pod_uid = uid,
            .mount_dir = fmt::format("/k/pods/{}/volumes/berth.dev~block/{}", uid, volume),
            .cluster_name = "main"};
  }
  void AddFence(const std::string& volume) {
    api::VolumeFence fence(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                                {"kind", "VolumeFence"},
                                {"metadata", {{"name", volume}}}});
    fence.set_entries({Entry("n1", volume)});
    api_.Add(fence.json());
  }
  bool HasFence(const std::string& volume) const {
    return !api_.Peek(api::kinds::kVolumeFence, "", volume).is_null();
  }

  // The agent takes volumes off that a NodeCleanup names and those of a cluster that is deleted.
  void RunAgent() {
    api_.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
              {"kind", "StorageCluster"},
              {"metadata",
               {{"name", "main"},
                {"finalizers", {api::kClusterFinalizer}},
                {"deletionTimestamp", "2026-01-01T00:00:00Z"}}},
              {"spec", {{"backend", {{"images", {{"folder", "/srv"}}}}}}}});
    AddFence("of-cluster");
    AddFence("of-cleanup");
    FenceEntry left = Entry("n1", "left");
    left.mount_dir = "/proc";  // where something else is mounted
    left.cluster_name = "";
    ASSERT_OK(AddCleanups(api_, "n1",
                          {{.volume = "of-cleanup", .attachment = Entry("n1", "of-cleanup")},
                           {.volume = "left", .attachment = left}}));
    std::ofstream(folder_ / "driver") << "#!/bin/sh\n";
    const auto agent =
        Agent::Start({.node = "n1",
                      .data_folder = folder_ / "data",
                      .kubelet_folder = "/k",
                      .socket = folder_ / "sock",
                      .drivers = {"berth.dev/block"},
                      .plugin_folder = folder_ / "plugins",
                      .driver_executable = folder_ / "driver"},
                     client_, events_, clock_,
                     [this](const Json&) -> base::StatusOr<std::unique_ptr<block::Backend>> {
                       return std::unique_ptr<block::Backend>(
                           std::make_unique<block::FakeBackend>(images_, "n1"));
                     });
    ASSERT_OK(agent);
    EXPECT_TRUE(api_.WaitUntil([&] {
      const Json cleanup = api_.Peek(api::kinds::kNodeCleanup, "", "n1");
      const Json cluster = api_.Peek(api::kinds::kStorageCluster, "", "main");
      return !HasFence("of-cluster") && !HasFence("of-cleanup") &&
             base::json::Array(cleanup, {"entries"}).size() == 1 &&
             !base::json::String(cleanup, {"status", "message"}).empty() &&
             base::json::String(cluster, {"status", "nodes", "n1", "state"}) == "Clean";
    })) << api_.Peek(api::kinds::kNodeCleanup, "", "n1")
        << api_.Peek(api::kinds::kStorageCluster, "", "main");
    for (const auto* kind : {&api::kinds::kPersistentVolume, &api::kinds::kVolumeFence,
                             &api::kinds::kNodeCleanup, &api::kinds::kStorageCluster}) {
      EXPECT_TRUE(api_.WaitForWatches(*kind, 1));
    }
  }

  // A pod of this node gets the volume of a pod of the deleted node n2.
  void TakeOver(const std::string& volume, const std::string& uid) {
    Fences fences({client_, events_, clock_, "n1"});
    ASSERT_OK(Fences({api_, events_, clock_, "n2"})
                  .Acquire({.volume = volume, .entry = Entry("n2", "of-n2"), .fs_type = "ext4"},
                           {.volume = {}, .pod = {}, .cluster_name = "main", .image = "img"},
                           {[](const FenceEntry&) { return ConsumerFacts(); }}));
    FenceEntry own = Entry("n1", volume);
    own.pod_uid = uid;
    ASSERT_OK(fences.Acquire({.volume = volume, .entry = own, .fs_type = "ext4"},
                             {.volume = {"v1", "PersistentVolume", "", volume, "u"},
                              .pod = {"v1", "Pod", "default", "db", uid},
                              .cluster_name = "main",
                              .image = "img"},
                             {[this](const FenceEntry& old) {
                               return consumers_.Find(
                                   api::VolumeName("pv"), old, "",
                                   {.find_lock = [](const auto&) { return BackendFact::kNoLock; }});
                             }}));
    ASSERT_OK(fences.WriteDeviceStatus(volume, {.device_path = "/dev/x", .state = "Attached"}));
    ASSERT_OK(fences.Release(volume, own));
  }

  const platform::TempFolder folder_;
  base::SystemClock clock_;
  kube::FakeClient api_{clock_};
  AgentClient client_{api_, "n1"};
  kube::EventRecorder events_{client_, clock_, "berth-block-agent", "n1"};
  Consumers consumers_{client_, {.lease_time = std::chrono::milliseconds(0)}};
  block::FakeImages images_;
};

TEST_F(AgentRightsTest, EachRightIsUsed) {
  RunAgent();
  TakeOver("pv-1", "one");
  TakeOver("pv-2", "two");
  // The first pod that wants a volume creates its fence.
  ASSERT_OK(Fences({client_, events_, clock_, "n1"})
                .Acquire({.volume = "pv-3", .entry = Entry("n1", "pv-3"), .fs_type = "ext4"},
                         {.volume = {}, .pod = {}, .cluster_name = "main", .image = "img"},
                         {[](const FenceEntry&) { return ConsumerFacts(); }}));
  // A mount, which needs a disk, reads the pod's claim and, of NBD volumes without a fence, the
  // pods that use it.
  api_.Add({{"apiVersion", "v1"},
            {"kind", "PersistentVolumeClaim"},
            {"metadata", {{"name", "data"}, {"namespace", "default"}}}});
  ASSERT_OK(kube::Get<api::PersistentVolumeClaim>(client_, "default", "data"));
  const api::PersistentVolume claimed(
      {{"metadata", {{"name", "pv-3"}}},
       {"spec", {{"claimRef", {{"namespace", "default"}, {"name", "data"}}}}}});
  ASSERT_OK(FindStartedPods(client_, claimed, "n1"));
  // The last entry of a NodeCleanup goes with the object.
  FenceEntry left = Entry("n1", "left");
  left.mount_dir = "/proc";
  ASSERT_OK(RemoveCleanup(client_, api::NodeName("n1"), {.volume = "left", .attachment = left}));
  // An event that is repeated is counted.
  for (int count = 1; count <= 2; ++count) {
    events_.Record({"v1", "PersistentVolume", "", "pv-4", "u"}, base::EventType::kWarning, "Test",
                   "again");
    ASSERT_TRUE(api_.WaitUntil([&] {
      const auto events = api_.PeekAll(api::kinds::kEvent);
      return std::ranges::any_of(events, [&](const Json& event) {
        return base::json::String(event, {"reason"}) == "Test" &&
               base::json::Int(event, {"count"}) == count;
      });
    }));
  }
  EXPECT_THAT(client_.unused(), IsEmpty()) << "remove it from deploy/block-agent/rbac.yaml";
}

}  // namespace
}  // namespace berth::blockagent
