#include "node/pods/pod_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::node {
namespace {

using base::Json;
using Phase = ContainerState::Phase;
namespace json = base::json;

class PodStatusTest : public ::testing::Test {
 protected:
  PodStatusTest()
      : pod_({{"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}}},
              {"spec",
               {{"restartPolicy", "Always"}, {"containers", {{{"name", "a"}, {"image", "i"}}}}}}}) {
  }

  ContainerState& Add(const std::string& name, Phase phase, int exit_code = 0,
                      uint32_t restarts = 0) {
    ContainerState state{.id = ContainerId(fmt::format("{}-{}", name, restarts)),
                         .sandbox_id = SandboxId("s"),
                         .name = name,
                         .restart_count = restarts,
                         .phase = phase,
                         .created_at = ++time_,
                         .started_at = phase == Phase::kCreated ? 0 : 1'767'225'600'000'000'000,
                         .finished_at = phase == Phase::kExited ? 1'767'225'601'000'000'000 : 0,
                         .exit_code = exit_code};
    runtime_.containers.insert(runtime_.containers.begin(), state);
    if (runtime_.sandboxes.empty())
      runtime_.sandboxes.push_back({.id = SandboxId("s"), .ready = true});
    return runtime_.containers[0];
  }
  Json Make() {
    const HealthOf health = [this](const ContainerId&) { return health_; };
    return MakePodStatus({.pod = pod_,
                          .runtime = runtime_,
                          .facts = facts_,
                          .health = health,
                          .waiting = waiting_,
                          .messages = messages_,
                          .ended_phase = ended_,
                          .terminating = terminating_});
  }
  static std::string Condition(const Json& status, const std::string& type,
                               const char* member = "status") {
    for (const Json& condition : status["conditions"]) {
      if (condition["type"] == type) return json::String(condition, {member});
    }
    return "absent";
  }

  int64_t time_ = 0;
  api::Pod pod_;
  PodRuntime runtime_;
  PodFacts facts_{.host_ip = "192.0.2.1", .pod_ips = {"10.0.0.1"}};
  ContainerHealth health_;
  std::map<std::string, WaitingReason> waiting_;
  std::map<ContainerId, std::string> messages_;
  std::string ended_;
  bool terminating_ = false;
};

TEST_F(PodStatusTest, AnEphemeralContainerHasAStatusAndCountsForNothing) {
  Json json = pod_.json();
  json["spec"]["ephemeralContainers"] = {{{"name", "look"}, {"image", "i"}}};
  pod_ = api::Pod(std::move(json));
  Add("a", Phase::kRunning);
  Json status = Make();
  EXPECT_EQ(status["ephemeralContainerStatuses"][0]["state"]["waiting"]["reason"],
            "ContainerCreating");
  EXPECT_EQ(status["phase"], "Running");
  EXPECT_EQ(Condition(status, "Ready"), "True");
  // The status has no container id, because a container with an id counts as one that ran.
  Add("look", Phase::kCreated);
  EXPECT_FALSE(Make()["ephemeralContainerStatuses"][0].contains("containerID"));
  Add("look", Phase::kRunning);
  status = Make();
  EXPECT_TRUE(status["ephemeralContainerStatuses"][0]["state"].contains("running"));
  EXPECT_EQ(status["ephemeralContainerStatuses"][0]["ready"], false);
}

TEST_F(PodStatusTest, OfARunningPod) {
  Add("a", Phase::kRunning);
  const Json status = Make();
  EXPECT_EQ(status["phase"], "Running");
  EXPECT_EQ(status["containerStatuses"][0]["state"],
            Json({{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}}));
  EXPECT_EQ(status["containerStatuses"][0]["ready"], true);
  EXPECT_EQ(status["containerStatuses"][0]["containerID"], "containerd://a-0");
  EXPECT_EQ(status["podIP"], "10.0.0.1");
  EXPECT_EQ(status["podIPs"], Json({{{"ip", "10.0.0.1"}}}));
  EXPECT_EQ(Condition(status, "Ready"), "True");
  EXPECT_EQ(Condition(status, "PodReadyToStartContainers"), "True");
}

TEST_F(PodStatusTest, IsNotReadyBeforeItsProbesPass) {
  Add("a", Phase::kRunning);
  health_.ready = false;
  Json status = Make();
  EXPECT_EQ(status["phase"], "Running");
  EXPECT_EQ(Condition(status, "Ready"), "False");
  EXPECT_EQ(Condition(status, "ContainersReady", "message"), "containers with unready status: [a]");
  health_ = {.started = false};
  EXPECT_EQ(Make()["containerStatuses"][0]["started"], false);
}

TEST_F(PodStatusTest, HonoursReadinessGates) {
  Add("a", Phase::kRunning);
  pod_.Set({"spec", "readinessGates"}, {{{"conditionType", "example.com/gate"}}});
  EXPECT_EQ(Condition(Make(), "ContainersReady"), "True");
  EXPECT_EQ(Condition(Make(), "Ready"), "False");
  pod_.Set({"status", "conditions"}, {{{"type", "example.com/gate"}, {"status", "True"}}});
  EXPECT_EQ(Condition(Make(), "Ready"), "True");
}

TEST_F(PodStatusTest, OfAPodThatWaits) {
  waiting_[""] = {"ContainerCreating", "volume 'data': waiting"};
  const Json status = Make();
  EXPECT_EQ(status["phase"], "Pending");
  EXPECT_EQ(status["containerStatuses"][0]["state"],
            Json({{"waiting",
                   {{"reason", "ContainerCreating"}, {"message", "volume 'data': waiting"}}}}));
  EXPECT_EQ(Condition(status, "PodReadyToStartContainers"), "False");
}

TEST_F(PodStatusTest, OfACrashLoop) {
  Add("a", Phase::kExited, 1, 3);
  messages_[ContainerId("a-3")] = "it broke";
  waiting_["a"] = {"CrashLoopBackOff", "back-off 40s"};
  const Json status = Make();
  EXPECT_EQ(status["phase"], "Running");
  const Json& container = status["containerStatuses"][0];
  EXPECT_EQ(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
  EXPECT_EQ(container["restartCount"], 3);
  EXPECT_EQ(container["lastState"]["terminated"]["exitCode"], 1);
  EXPECT_EQ(container["lastState"]["terminated"]["message"], "it broke");
  EXPECT_EQ(container["lastState"]["terminated"]["reason"], "Error");
  EXPECT_EQ(container["lastState"]["terminated"]["finishedAt"], "2026-01-01T00:00:01Z");
}

TEST_F(PodStatusTest, NamesInitContainersThatAreNotDone) {
  pod_.Set({"spec", "initContainers"},
           {{{"name", "i"}, {"image", "i"}}, {{"name", "j"}, {"image", "i"}}});
  Add("i", Phase::kExited, 0);
  const Json status = Make();
  EXPECT_EQ(status["phase"], "Pending");
  EXPECT_EQ(Condition(status, "Initialized", "message"), "containers with incomplete status: [j]");
  EXPECT_EQ(status["initContainerStatuses"][0]["ready"], true);
  EXPECT_EQ(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
}

TEST_F(PodStatusTest, OfPodsThatEnd) {
  pod_.Set({"spec", "restartPolicy"}, "Never");
  Add("a", Phase::kExited, 0);
  EXPECT_EQ(Make()["phase"], "Succeeded");
  EXPECT_EQ(Condition(Make(), "Ready", "reason"), "PodCompleted");
  runtime_.containers[0].exit_code = 2;
  EXPECT_EQ(Make()["phase"], "Failed");
  pod_.Set({"spec", "restartPolicy"}, "Always");
  EXPECT_EQ(Make()["phase"], "Running");
  terminating_ = true;
  EXPECT_EQ(Make()["phase"], "Failed") << "deleted: nothing restarts any more";
}

TEST_F(PodStatusTest, RemembersWhatTheRuntimeForgot) {
  ended_ = "Succeeded";
  pod_.Set({"status", "containerStatuses"},
           {{{"name", "a"},
             {"containerID", "containerd://x"},
             {"restartCount", 2},
             {"state", {{"terminated", {{"exitCode", 0}, {"reason", "Completed"}}}}}}});
  const Json status = Make();
  EXPECT_EQ(status["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
  EXPECT_EQ(status["containerStatuses"][0]["restartCount"], 2);
}

TEST_F(PodStatusTest, WritesOnlyWhatDiffers) {
  Add("a", Phase::kRunning);
  const base::FakeClock clock;
  const Json others = {
      {"conditions",
       {{{"type", "example.com/gate"}, {"status", "True"}},
        {{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", "earlier"}}}},
      {"nominatedNodeName", "x"}};
  const Json merged = MergePodStatus(others, Make(), clock.Now());
  EXPECT_EQ(merged["startTime"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(merged["nominatedNodeName"], "x");
  EXPECT_EQ(Condition(merged, "example.com/gate"), "True");
  EXPECT_EQ(Condition(merged, "PodScheduled", "lastTransitionTime"), "earlier");
  EXPECT_FALSE(MakeStatusPatch(others, merged).contains("nominatedNodeName"));

  base::FakeClock later;
  later.Advance(std::chrono::hours(1));
  EXPECT_EQ(MakeStatusPatch(merged, MergePodStatus(merged, Make(), later.Now())), Json::object());
  health_.ready = false;
  const Json unready = MergePodStatus(merged, Make(), later.Now());
  EXPECT_EQ(Condition(unready, "Ready", "lastTransitionTime"), "2026-01-01T01:00:00Z");
  EXPECT_EQ(Condition(unready, "Initialized", "lastTransitionTime"), "2026-01-01T00:00:00Z");
}

}  // namespace
}  // namespace berth::node
