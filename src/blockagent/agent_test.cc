// Tests how a running agent follows changes of the API, without a request of the kubelet.
#include "blockagent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/assert_ok.h"
#include "block/fake_backend.h"
#include "blockagent/fake_rights.h"
#include "blockagent/records.h"
#include "kube/event_recorder.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_files.h"

namespace berth::blockagent {
namespace {

using base::Json;
using testing::Contains;
using testing::Not;

// An API that records which fences are read.
class FenceReads : public kube::FakeClient {
 public:
  using FakeClient::FakeClient;

  base::StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                           std::string_view name) override {
    if (&kind == &api::VolumeFence::kInfo) {
      const base::MutexLock lock(mutex_);
      names_.emplace(name);
      changed_.NotifyAll();
    }
    return FakeClient::Get(kind, ns, name);
  }
  std::set<std::string> TakeNames() {
    const base::MutexLock lock(mutex_);
    return std::exchange(names_, {});
  }
  // False: not all of `names` were read within ten seconds.
  bool WaitFor(const std::set<std::string>& names) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const base::MutexLock lock(mutex_);
    while (!std::ranges::includes(names_, names)) {
      if (!changed_.WaitUntil(mutex_, deadline)) return std::ranges::includes(names_, names);
    }
    return true;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    ServeBlockKinds(api_);
    std::ofstream(folder_ / "driver") << "#!/bin/sh\n";
  }

  // Adds a volume that a pod of this node has mounted, with its fence and the agent's record.
  void AddMounted(const std::string& volume) {
    const std::string uid = "uid-" + volume;
    const api::FenceEntry entry{
        .node = "n1",
        .pod_namespace = "default",
        .pod = volume,
        .pod_uid = uid,
        .mount_dir = fmt::format("/k/pods/{}/volumes/berth.dev~block/{}", uid, volume),
        .cluster_name = "main"};
    api_.Add({{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", volume}, {"namespace", "default"}, {"uid", uid}}}});
    api::VolumeFence fence(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                                {"kind", "VolumeFence"},
                                {"metadata", {{"name", volume}}}});
    fence.set_entries({entry});
    api_.Add(fence.json());
    const std::string boot_id = *platform::ReadBootId();
    const auto records = Records::Open(folder_ / "data/block-agent/volumes");
    ASSERT_OK(records);
    ASSERT_OK((*records)->Put({.volume = volume,
                               .cluster = "main",
                               .image = volume,
                               .backend = {{"images", {{"folder", "/srv"}}}},
                               .boot_id = boot_id,
                               .state = State::kMounted,
                               .uses = {{entry, State::kMounted}}}));
  }

  base::StatusOr<std::unique_ptr<Agent>> StartAgent(
      const SelfFenceTimes& self_fence = SelfFenceTimes()) {
    AgentOptions options{.node = "n1",
                         .data_folder = folder_ / "data",
                         .kubelet_folder = "/k",
                         .socket = folder_ / "sock",
                         .drivers = {"berth.dev/block"},
                         .plugin_folder = folder_ / "plugins",
                         .driver_executable = folder_ / "driver",
                         .after_harmless_change = std::chrono::hours(1)};
    options.self_fence = self_fence;
    return Agent::Start(options, client_, events_, clock_,
                        [this](const Json&) -> base::StatusOr<std::unique_ptr<block::Backend>> {
                          return std::unique_ptr<block::Backend>(
                              std::make_unique<block::FakeBackend>(images_, "n1"));
                        });
  }

  std::vector<api::FenceEntry> EntriesOf(const std::string& volume) const {
    const auto fence = api_.Peek<api::VolumeFence>("", volume);
    return fence.has_value() ? fence->entries() : std::vector<api::FenceEntry>();
  }

  const platform::TempFolder folder_;
  base::SystemClock clock_;
  FenceReads api_{clock_};
  AgentClient client_{api_, "n1"};
  kube::EventRecorder events_{client_, clock_, "berth-block-agent", "n1"};
  block::FakeImages images_;
};

TEST_F(AgentTest, DoesNotStartWithTimesInWhichANodeWouldNotHaveTakenItsVolumesOff) {
  const auto started = StartAgent(
      SelfFenceTimes{.after = std::chrono::seconds(15), .grace_period = std::chrono::seconds(30)});
  EXPECT_EQ(started.status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data")) << "nothing was made";
}

TEST_F(AgentTest, AFenceThatIsGoneIsLookedAtAtOnceAndOneThatStillNamesThisNodeIsNot) {
  AddMounted("whole");
  AddMounted("lost");
  const auto agent = StartAgent();
  ASSERT_OK(agent);
  ASSERT_TRUE(api_.WaitForWatches(api::kinds::kVolumeFence, 1));
  // Each volume on record is looked at when the agent starts.
  ASSERT_TRUE(api_.WaitFor({"whole", "lost"}));
  api_.TakeNames();
  // As the agent itself changes the fence of a volume that it mounts.
  api::VolumeFence told = *api_.Peek<api::VolumeFence>("", "whole");
  told.Set({"status", "devices"}, Json::array({{{"node", "n1"}, {"devicePath", "/dev/x"}}}));
  ASSERT_OK(api_.Update(api::VolumeFence::kInfo, told.json(), "status"));
  ASSERT_TRUE(api_.Remove(api::kinds::kVolumeFence, "", "lost"));
  EXPECT_TRUE(api_.WaitUntil([&] { return !EntriesOf("lost").empty(); }));
  EXPECT_THAT(api_.TakeNames(), Not(Contains("whole")));
}

// Somebody has broken the use, whose entry is still there.
TEST_F(AgentTest, AFenceWithABrokenUseIsLookedAtAtOnce) {
  AddMounted("broken");
  const auto agent = StartAgent();
  ASSERT_OK(agent);
  ASSERT_TRUE(api_.WaitForWatches(api::kinds::kVolumeFence, 1));
  ASSERT_TRUE(api_.WaitFor({"broken"}));
  api_.TakeNames();
  api::VolumeFence fence = *api_.Peek<api::VolumeFence>("", "broken");
  fence.set_annotation("block.berth.dev/broken-pods", "uid-broken,");
  ASSERT_OK(api_.Update(api::VolumeFence::kInfo, fence.json(), ""));
  EXPECT_TRUE(api_.WaitFor({"broken"}));
}

}  // namespace
}  // namespace berth::blockagent
