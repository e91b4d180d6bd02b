#include "node/pods/pod_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/containers/container_config.h"

namespace berth::node {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Phase = ContainerState::Phase;

api::Pod PodOf(const std::string& policy, std::vector<std::string> containers,
               std::vector<std::string> init = {}) {
  Json spec = {
      {"restartPolicy", policy}, {"containers", Json::array()}, {"initContainers", Json::array()}};
  for (const std::string& name : containers)
    spec["containers"].push_back({{"name", name}, {"image", "i"}});
  for (const std::string& name : init)
    spec["initContainers"].push_back({{"name", name}, {"image", "i"}});
  return api::Pod(
      {{"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}}}, {"spec", spec}});
}

class Runtime {
 public:
  Runtime& Sandbox(const std::string& id, bool ready, uint32_t attempt = 0) {
    runtime_.sandboxes.insert(
        runtime_.sandboxes.begin(),
        {.id = SandboxId(id), .attempt = attempt, .ready = ready, .created_at = ++time_});
    return *this;
  }
  Runtime& Container(const std::string& name, Phase phase, int exit_code = 0, uint32_t restarts = 0,
                     const std::string& sandbox = "s") {
    ContainerState state{.id = ContainerId(fmt::format("{}-{}", name, restarts)),
                         .sandbox_id = SandboxId(sandbox),
                         .name = name,
                         .restart_count = restarts,
                         .phase = phase,
                         .created_at = ++time_,
                         .finished_at = phase == Phase::kExited ? ++time_ : 0,
                         .exit_code = exit_code};
    runtime_.containers.insert(runtime_.containers.begin(), state);
    return *this;
  }
  PodRuntime Get() const { return runtime_; }

 private:
  int64_t time_ = 0;
  PodRuntime runtime_;
};

const HealthOf kHealthy = [](const ContainerId&) { return ContainerHealth(); };

std::vector<std::string> Starts(const PodPlan& plan) {
  std::vector<std::string> out;
  for (const ContainerStart& start : plan.starts) {
    out.push_back(fmt::format("{}/{}", start.container.name(), start.restart_count));
  }
  return out;
}

TEST(PodPlan, StartsEverythingOfANewPod) {
  const PodPlan plan = MakePlan(PodOf("Always", {"a", "b"}), {}, kHealthy);
  EXPECT_TRUE(plan.needs_sandbox);
  EXPECT_EQ(plan.sandbox_attempt, 0u);
  EXPECT_THAT(Starts(plan), ElementsAre("a/0", "b/0"));
}

api::Pod WithEphemeral(api::Pod pod, const std::string& name) {
  Json json = pod.json();
  json["spec"]["ephemeralContainers"] = {{{"name", name}, {"image", "i"}}};
  return api::Pod(std::move(json));
}

TEST(PodPlan, StartsAnEphemeralContainerOnceBesideTheOthers) {
  const api::Pod pod = WithEphemeral(PodOf("Always", {"a"}, {"i"}), "look");
  Runtime runtime;
  runtime.Sandbox("s", true).Container("i", Phase::kRunning);
  EXPECT_THAT(Starts(MakePlan(pod, runtime.Get(), kHealthy)), ElementsAre("look/0"));
  runtime.Container("look", Phase::kExited, 1);
  EXPECT_THAT(MakePlan(pod, runtime.Get(), kHealthy).starts, IsEmpty());
}

TEST(PodPlan, StartsAnEphemeralContainerThatWasMadeAndNeverRan) {
  const PodPlan plan = MakePlan(WithEphemeral(PodOf("Always", {"a"}), "look"),
                                Runtime()
                                    .Sandbox("s", true)
                                    .Container("a", Phase::kRunning)
                                    .Container("look", Phase::kCreated)
                                    .Get(),
                                kHealthy);
  EXPECT_THAT(Starts(plan), ElementsAre("look/0"));
  EXPECT_THAT(plan.remove_containers, ElementsAre(ContainerId("look-0")));
}

TEST(PodPlan, AnEphemeralContainerHasOneSandboxAndHoldsNoPod) {
  Json json = WithEphemeral(PodOf("Never", {"a"}), "look").json();
  json["status"]["ephemeralContainerStatuses"] = {{{"name", "look"}, {"containerID", "c://x"}}};
  // The runtime has forgotten it together with its sandbox.
  EXPECT_THAT(Starts(MakePlan(api::Pod(json), {}, kHealthy)), ElementsAre("a/0"));
  const PodPlan ended = MakePlan(api::Pod(json),
                                 Runtime()
                                     .Sandbox("s", true)
                                     .Container("a", Phase::kExited, 0)
                                     .Container("look", Phase::kRunning)
                                     .Get(),
                                 kHealthy);
  EXPECT_EQ(ended.ended_phase, "Succeeded");
}

TEST(PodPlan, AnEphemeralContainerIsNoneOfThoseWhoseEndIsThePods) {
  // The sandbox died before the pod's own container was made.
  const PodPlan plan =
      MakePlan(WithEphemeral(PodOf("Never", {"a"}), "look"),
               Runtime().Sandbox("s", false).Container("look", Phase::kExited, 0).Get(), kHealthy);
  EXPECT_EQ(plan.ended_phase, "");
  EXPECT_TRUE(plan.needs_sandbox);
}

TEST(PodPlan, LeavesARunningPodAlone) {
  const PodPlan plan =
      MakePlan(PodOf("Always", {"a"}),
               Runtime().Sandbox("s", true).Container("a", Phase::kRunning).Get(), kHealthy);
  EXPECT_FALSE(plan.needs_sandbox);
  EXPECT_THAT(plan.starts, IsEmpty());
  EXPECT_THAT(plan.stops, IsEmpty());
  EXPECT_EQ(plan.ended_phase, "");
}

TEST(PodPlan, RunsInitContainersOneAfterTheOther) {
  const api::Pod pod = PodOf("Always", {"a"}, {"i", "j"});
  EXPECT_THAT(Starts(MakePlan(pod, {}, kHealthy)), ElementsAre("i/0"));
  Runtime runtime;
  runtime.Sandbox("s", true).Container("i", Phase::kRunning);
  EXPECT_THAT(Starts(MakePlan(pod, runtime.Get(), kHealthy)), IsEmpty());
  Runtime first;
  first.Sandbox("s", true).Container("i", Phase::kExited);
  EXPECT_THAT(Starts(MakePlan(pod, first.Get(), kHealthy)), ElementsAre("j/0"));
  first.Container("j", Phase::kExited, 1);
  EXPECT_THAT(Starts(MakePlan(pod, first.Get(), kHealthy)), ElementsAre("j/1"));
  first.Container("j", Phase::kExited, 0, 1);
  EXPECT_THAT(Starts(MakePlan(pod, first.Get(), kHealthy)), ElementsAre("a/0"));
}

TEST(PodPlan, FailsWhenAnInitContainerFailsAndNothingRestarts) {
  const PodPlan plan =
      MakePlan(PodOf("Never", {"a"}, {"i"}),
               Runtime().Sandbox("s", true).Container("i", Phase::kExited, 1).Get(), kHealthy);
  EXPECT_EQ(plan.ended_phase, "Failed");
  EXPECT_THAT(plan.starts, IsEmpty());
}

TEST(PodPlan, KeepsSidecarsRunningAndStartsTheRestBesideThem) {
  api::Pod pod = PodOf("Always", {"a"}, {"side", "i"});
  pod.mutable_json()["spec"]["initContainers"][0]["restartPolicy"] = "Always";
  Runtime runtime;
  runtime.Sandbox("s", true).Container("side", Phase::kRunning);
  EXPECT_THAT(Starts(MakePlan(pod, runtime.Get(), kHealthy)), ElementsAre("i/0"));
  const HealthOf starting = [](const ContainerId&) { return ContainerHealth{.started = false}; };
  EXPECT_THAT(Starts(MakePlan(pod, runtime.Get(), starting)), IsEmpty());
  runtime.Container("i", Phase::kExited)
      .Container("a", Phase::kRunning)
      .Container("side", Phase::kExited, 1);
  EXPECT_THAT(Starts(MakePlan(pod, runtime.Get(), kHealthy)), ElementsAre("side/1"));
}

struct EndCase {
  std::string policy;
  int exit_a, exit_b;
  std::string phase;
  std::vector<std::string> starts;
};
class PodPlanEnd : public ::testing::TestWithParam<EndCase> {};
TEST_P(PodPlanEnd, FollowsTheRestartPolicy) {
  const EndCase& c = GetParam();
  const PodPlan plan = MakePlan(PodOf(c.policy, {"a", "b"}),
                                Runtime()
                                    .Sandbox("s", true)
                                    .Container("a", Phase::kExited, c.exit_a)
                                    .Container("b", Phase::kExited, c.exit_b)
                                    .Get(),
                                kHealthy);
  EXPECT_EQ(plan.ended_phase, c.phase);
  EXPECT_EQ(Starts(plan), c.starts);
}
INSTANTIATE_TEST_SUITE_P(Policies, PodPlanEnd,
                         ::testing::Values(EndCase{"Always", 0, 1, "", {"a/1", "b/1"}},
                                           EndCase{"OnFailure", 0, 1, "", {"b/1"}},
                                           EndCase{"OnFailure", 0, 0, "Succeeded", {}},
                                           EndCase{"Never", 0, 1, "Failed", {}},
                                           EndCase{"Never", 0, 0, "Succeeded", {}}));

TEST(PodPlan, MakesANewSandboxAfterTheOldOneDied) {
  const api::Pod pod = PodOf("Always", {"a"}, {"i"});
  Runtime runtime;
  runtime.Sandbox("s", false).Container("i", Phase::kExited).Container("a", Phase::kRunning);
  const PodPlan first = MakePlan(pod, runtime.Get(), kHealthy);
  EXPECT_THAT(first.stops, SizeIs(1))
      << "what still runs in the dead sandbox must be stopped first";
  EXPECT_FALSE(first.needs_sandbox);
  Runtime stopped;
  stopped.Sandbox("s", false).Container("i", Phase::kExited).Container("a", Phase::kExited, 137);
  const PodPlan second = MakePlan(pod, stopped.Get(), kHealthy);
  EXPECT_TRUE(second.needs_sandbox);
  EXPECT_EQ(second.sandbox_attempt, 1u);
  EXPECT_THAT(Starts(second), ElementsAre("i/1"));
}

TEST(PodPlan, NeverStartsAPodAgainThatMustNotRestart) {
  Runtime runtime;
  runtime.Sandbox("s", false).Container("a", Phase::kExited, 0);
  EXPECT_EQ(MakePlan(PodOf("Never", {"a"}), runtime.Get(), kHealthy).ended_phase, "Succeeded");
  const PodPlan plan = MakePlan(PodOf("Never", {"a", "b"}), runtime.Get(), kHealthy);
  EXPECT_EQ(plan.ended_phase, "Failed");
  EXPECT_FALSE(plan.needs_sandbox);
}

TEST(PodPlan, StartsOnlyWhatFailedInANewSandbox) {
  Runtime runtime;
  runtime.Sandbox("s", false).Container("a", Phase::kExited, 0).Container("b", Phase::kExited, 1);
  EXPECT_THAT(Starts(MakePlan(PodOf("OnFailure", {"a", "b"}), runtime.Get(), kHealthy)),
              ElementsAre("b/1"));
}

TEST(PodPlan, KeepsTheNewestOfTwoSandboxes) {
  Runtime runtime;
  runtime.Sandbox("old", true, 0).Sandbox("s", true, 1).Container("a", Phase::kRunning);
  const PodPlan plan = MakePlan(PodOf("Always", {"a"}), runtime.Get(), kHealthy);
  EXPECT_EQ(plan.sandbox_id, SandboxId("s"));
  EXPECT_THAT(plan.stop_sandboxes, ElementsAre(SandboxId("old")));
}

TEST(PodPlan, MakesAContainerAgainThatNeverStarted) {
  Runtime runtime;
  runtime.Sandbox("s", true).Container("a", Phase::kCreated, 0, 2);
  const PodPlan plan = MakePlan(PodOf("Always", {"a"}), runtime.Get(), kHealthy);
  EXPECT_THAT(plan.remove_containers, ElementsAre(ContainerId("a-2")));
  EXPECT_THAT(Starts(plan), ElementsAre("a/2"));
}

TEST(PodPlan, StopsWhatIsUnhealthyOrChanged) {
  Runtime runtime;
  runtime.Sandbox("s", true).Container("a", Phase::kRunning);
  const HealthOf sick = [](const ContainerId&) { return ContainerHealth{.must_stop = "sick"}; };
  EXPECT_THAT(MakePlan(PodOf("Always", {"a"}), runtime.Get(), sick).stops, SizeIs(1));
  PodRuntime changed = runtime.Get();
  changed.containers[0].hash = "another";
  const PodPlan plan = MakePlan(PodOf("Always", {"a"}), changed, kHealthy);
  ASSERT_THAT(plan.stops, SizeIs(1));
  EXPECT_EQ(plan.stops[0].why, "Container a definition changed, will be restarted");
}

TEST(PodPlan, CountsRestartsOnWhenTheRuntimeForgot) {
  api::Pod pod = PodOf("Always", {"a"});
  pod.Set({"status", "containerStatuses"},
          {{{"name", "a"}, {"containerID", "x://1"}, {"restartCount", 4}}});
  EXPECT_THAT(Starts(MakePlan(pod, Runtime().Sandbox("s", true).Get(), kHealthy)),
              ElementsAre("a/5"));
}

TEST(PodGarbageTest, KeepsOneDeadContainerOfEachNameAndWhatItNeeds) {
  Runtime runtime;
  runtime.Sandbox("old", false, 0)
      .Container("a", Phase::kExited, 1, 0, "old")
      .Sandbox("s", true, 1)
      .Container("a", Phase::kExited, 1, 1)
      .Container("a", Phase::kRunning, 0, 2);
  const PodGarbage garbage = FindGarbage(runtime.Get());
  EXPECT_THAT(garbage.containers, ElementsAre(ContainerId("a-0")));
  EXPECT_THAT(garbage.sandboxes, ElementsAre(SandboxId("old")));
  Runtime young;
  young.Sandbox("old", false, 0)
      .Container("a", Phase::kExited, 1, 0, "old")
      .Sandbox("s", true, 1)
      .Container("a", Phase::kRunning, 0, 1);
  EXPECT_THAT(FindGarbage(young.Get()).containers, IsEmpty());
  EXPECT_THAT(FindGarbage(young.Get()).sandboxes, IsEmpty())
      << "its last exit is still told by the status";
}

}  // namespace
}  // namespace berth::node
