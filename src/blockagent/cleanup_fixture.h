// An agent on fakes, for tests of what others want off its node.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/assert_ok.h"
#include "block/fake_backend.h"
#include "blockagent/attachments.h"
#include "blockagent/fake_rights.h"
#include "blockagent/fence.h"
#include "blockagent/node_cleanup_worker.h"
#include "kube/fake_client.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_files.h"
#include "volume/fake_host.h"

namespace berth::blockagent {

// The agent of node n1, which has images mapped and mounted for pods.
class CleanupTest : public testing::Test {
 protected:
  CleanupTest() {
    ServeBlockKinds(client_);
    client_.Add({{"apiVersion", "storage.berth.dev/v1alpha1"},
                 {"kind", "StorageCluster"},
                 {"metadata", {{"name", "main"}, {"finalizers", {api::kClusterFinalizer}}}},
                 {"spec", {{"backend", backend_}}}});
  }

  static api::FenceEntry FenceEntryOf(const std::string& volume, const std::string& node = "n1") {
    return {.node = node,
            .pod_namespace = "default",
            .pod = "db",
            .pod_uid = "uid-" + volume,
            .mount_dir = "/k/pods/uid-" + volume,
            .cluster_name = "main"};
  }
  static api::CleanupEntry Entry(const std::string& volume) {
    return {.volume = volume,
            .attachment = FenceEntryOf(volume),
            .cluster_name = "main",
            .image = "img-" + volume,
            .reason = "somebody wants it"};
  }

  void AddFence(const std::string& volume, const std::string& node = "n1") {
    api::VolumeFence fence(base::Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                                      {"kind", "VolumeFence"},
                                      {"metadata", {{"name", volume}}}});
    fence.set_entries({FenceEntryOf(volume, node)});
    client_.Add(fence.json());
  }
  void AddVolume(const std::string& name) {
    client_.Add({{"apiVersion", "v1"},
                 {"kind", "PersistentVolume"},
                 {"metadata", {{"name", name}}},
                 {"spec",
                  {{"flexVolume",
                    {{"driver", "berth.dev/block"},
                     {"options", {{"cluster", "main"}, {"image", "img-" + name}}}}}}}});
  }
  void AddPod(const std::string& uid) {
    client_.Add({{"apiVersion", "v1"},
                 {"kind", "Pod"},
                 {"metadata", {{"namespace", "default"}, {"name", "db"}, {"uid", uid}}}});
  }
  // Mapped and mounted; with a record if it is to be.
  void Attach(const std::string& volume, bool recorded = true) {
    block::FakeBackend backend(images_, "n1");
    ASSERT_TRUE(backend.Create({.name = "img-" + volume, .size_bytes = 1 << 20}).ok());
    const auto mapping = backend.Map("img-" + volume, {});
    ASSERT_TRUE(mapping.ok());
    // In the mount table btrfs is known by its device's name.
    mounter_.Add(FenceEntryOf(volume).mount_dir, "btrfs", mapping->device);
    if (!recorded) return;
    PutRecord(volume, *mapping);
  }
  void PutRecord(const std::string& volume, const std::optional<block::Mapping>& mapping) {
    const auto records = Records::Open(folder_ / "volumes");
    ASSERT_TRUE(records.ok());
    const auto boot = platform::ReadBootId();
    ASSERT_TRUE(boot.ok());
    const State state = mapping.has_value() ? State::kMounted : State::kAttaching;
    ASSERT_TRUE((*records)
                    ->Put({.volume = volume,
                           .cluster = "main",
                           .image = "img-" + volume,
                           .backend = backend_,
                           .boot_id = *boot,
                           .state = state,
                           .fs_type = "btrfs",
                           .mapping = mapping,
                           .uses = {{.entry = FenceEntryOf(volume), .state = state}}})
                    .ok());
  }
  void PutRecordWithoutUses(const std::string& volume) {
    const auto records = Records::Open(folder_ / "volumes");
    ASSERT_OK(records);
    ASSERT_OK((*records)->Put({.volume = volume,
                               .cluster = "main",
                               .image = "img-" + volume,
                               .backend = backend_,
                               .boot_id = *platform::ReadBootId(),
                               .state = State::kDetaching}));
  }
  void Open() {
    auto opened = Attachments::Open(
        {.node = "n1", .data_folder = folder_.path(), .kubelet_folder = "/k", .consumers = {}},
        {.client = agent_,
         .exec = exec_,
         .mounter = mounter_,
         .events = events_,
         .clock = clock_,
         .make_backend =
             [this](const base::Json&) -> base::StatusOr<std::unique_ptr<block::Backend>> {
           auto backend = std::make_unique<block::FakeBackend>(images_, "n1");
           backend->OnCall(on_call_);
           return std::unique_ptr<block::Backend>(std::move(backend));
         }});
    ASSERT_TRUE(opened.ok()) << base::ToString(opened.status());
    attachments_ = *std::move(opened);
    worker_.emplace(NodeCleanupWorker::Options{.node = "n1", .patience = patience_}, agent_,
                    events_, *attachments_);
  }

  base::Status WorkOff() {
    return worker_->WorkOffEntries(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  }
  bool IsMapped(const std::string& volume) {
    return block::FakeBackend(images_, "n1").FindMapping("img-" + volume)->has_value();
  }
  bool HasFence(const std::string& volume) const {
    return !client_.Peek(api::kinds::kVolumeFence, "", volume).is_null();
  }
  bool HasCleanup() const { return !client_.Peek(api::kinds::kNodeCleanup, "", "n1").is_null(); }
  base::Json StatusOfNode() const {
    const base::Json cluster = client_.Peek(api::kinds::kStorageCluster, "", "main");
    const base::Json* status = base::json::Find(cluster, {"status", "nodes", "n1"});
    return status == nullptr ? base::Json() : *status;
  }

  const base::Json backend_ = {{"images", {{"folder", "/srv"}}}};
  const platform::TempFolder folder_;
  base::FakeClock clock_;
  kube::FakeClient client_{clock_};
  AgentClient agent_{client_, "n1"};
  volume::FakeMounter mounter_;
  volume::FakeExec exec_;
  volume::FakeEventSink events_;
  block::FakeImages images_;
  std::function<base::Status(std::string_view, const std::string&)> on_call_;
  std::chrono::milliseconds patience_ = std::chrono::minutes(2);
  std::unique_ptr<Attachments> attachments_;
  std::optional<NodeCleanupWorker> worker_;
};

}  // namespace berth::blockagent
