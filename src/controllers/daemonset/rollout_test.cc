#include "controllers/daemonset/rollout.h"

#include <gmock/gmock.h>

#include "api/time.h"
#include "controllers/daemonset/fake_daemon_set.h"

namespace berth::controllers::daemonset {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

enum class State { kAvailable, kUnready, kFailed, kSucceeded };

DaemonPod One(const std::string& name, const std::string& hash, State state = State::kAvailable,
              bool leaving = false) {
  const bool ready = state == State::kAvailable;
  const char* phase = state == State::kFailed      ? "Failed"
                      : state == State::kSucceeded ? "Succeeded"
                                                   : "Running";
  return {.pod = std::make_shared<const api::Pod>(MakePod(
              name, "",
              {{"metadata", {{"labels", {{kRevisionHash, hash}}}}},
               {"status",
                {{"phase", phase},
                 {"conditions", {{{"type", "Ready"}, {"status", ready ? "True" : "False"}}}}}}})),
          .leaving = leaving,
          .available = ready};
}

constexpr Fit kRuns{.run = true, .stay = true};
constexpr Fit kStays{.run = false, .stay = true};
constexpr Fit kLeaves{};

std::vector<std::string> Names(const std::vector<PodPtr>& pods) {
  std::vector<std::string> names;
  for (const PodPtr& pod : pods) names.push_back(pod->name());
  return names;
}

TEST(RolloutTest, EachNodeGetsWhatItShouldHave) {
  const Nodes nodes = {
      {"a", {kRuns, {}}},
      {"b", {kRuns, {One("b1", "new")}}},
      {"c", {kRuns, {One("c1", "new"), One("c2", "new"), One("c3", "old")}}},
      {"d", {kStays, {}}},
      {"e", {kStays, {One("e1", "old")}}},
      {"f", {kLeaves, {One("f1", "new"), One("f2", "new", State::kAvailable, true)}}},
      {"g", {kRuns, {One("g1", "new", State::kAvailable, true)}}},
      {"h", {kRuns, {One("h1", "new", State::kFailed)}}},
      {"i", {kRuns, {One("i1", "new", State::kSucceeded)}}},
  };
  const Plan plan = PlanPods(nodes, {.hash = "new"});
  EXPECT_THAT(plan.create_on, ElementsAre("a"));
  EXPECT_THAT(Names(plan.remove), ElementsAre("c2", "c3", "f1"));
  EXPECT_THAT(Names(plan.failed), ElementsAre("h1"));
  EXPECT_THAT(Names(plan.succeeded), ElementsAre("i1"));
}

TEST(RolloutTest, WithoutSurgeOnlySoManyAreWithoutAPod) {
  const Nodes nodes = {
      {"a", {kRuns, {One("a1", "old")}}},
      {"b", {kRuns, {One("b1", "old")}}},
      {"c", {kRuns, {One("c1", "old")}}},
      {"d", {kRuns, {One("d1", "new")}}},
  };
  EXPECT_THAT(Names(PlanRollout(nodes, {.hash = "new", .max_unavailable = 1}).remove),
              ElementsAre("a1"));
  EXPECT_THAT(Names(PlanRollout(nodes, {.hash = "new", .max_unavailable = 2}).remove),
              ElementsAre("a1", "b1"));
  EXPECT_THAT(Names(PlanRollout(nodes, {.hash = "new", .max_unavailable = 9}).remove),
              ElementsAre("a1", "b1", "c1"));
  EXPECT_TRUE(PlanRollout(nodes, {.hash = "new", .on_delete = true}).empty());
}

TEST(RolloutTest, WhatIsUnderWayCountsAndWhatIsBrokenGoesAnyway) {
  Nodes nodes = {
      {"a", {kRuns, {One("a1", "old")}}},
      {"b", {kRuns, {One("b1", "new", State::kUnready)}}},
  };
  EXPECT_TRUE(PlanRollout(nodes, {.hash = "new", .max_unavailable = 1}).empty());
  nodes["b"] = {kRuns, {One("b1", "old", State::kAvailable, true)}};
  EXPECT_TRUE(PlanRollout(nodes, {.hash = "new", .max_unavailable = 1}).empty());
  nodes["b"] = {kRuns, {One("b1", "old", State::kUnready)}};
  EXPECT_THAT(Names(PlanRollout(nodes, {.hash = "new", .max_unavailable = 1}).remove),
              ElementsAre("b1", "a1"));
  nodes["c"] = {kRuns, {One("c1", "new", State::kUnready)}};
  EXPECT_THAT(Names(PlanRollout(nodes, {.hash = "new", .max_unavailable = 1}).remove),
              ElementsAre("b1"));
}

TEST(RolloutTest, WithSurgeTheNewPodComesFirst) {
  const Rules rules{.hash = "new", .max_surge = 1, .max_unavailable = 0};
  Nodes nodes = {
      {"a", {kRuns, {One("a1", "old")}}},
      {"b", {kRuns, {One("b1", "old")}}},
  };
  EXPECT_TRUE(PlanPods(nodes, rules).empty());
  EXPECT_THAT(PlanRollout(nodes, rules).create_on, ElementsAre("a"));
  nodes["a"].pods.push_back(One("a2", "new", State::kUnready));
  EXPECT_TRUE(PlanPods(nodes, rules).empty());
  EXPECT_TRUE(PlanRollout(nodes, rules).empty());
  nodes["a"].pods[1] = One("a2", "new");
  EXPECT_THAT(Names(PlanPods(nodes, rules).remove), ElementsAre("a1"));
  nodes["a"].pods[0].leaving = true;
  EXPECT_TRUE(PlanPods(nodes, rules).empty());
  EXPECT_THAT(PlanRollout(nodes, rules).create_on, ElementsAre("b"));
}

TEST(RolloutTest, GenerationsThatLeaveForDaysHoldNothingUp) {
  const Nodes nodes = {
      {"a", {kRuns, {One("a1", "first", State::kAvailable, true), One("a2", "new")}}},
      {"b", {kRuns, {One("b1", "first", State::kAvailable, true), One("b2", "old")}}},
      {"c", {kRuns, {One("c1", "old", State::kAvailable, true)}}},
  };
  const Rules rules{.hash = "new", .max_surge = 1, .max_unavailable = 0};
  EXPECT_THAT(PlanPods(nodes, rules).create_on, ElementsAre("c"));
  EXPECT_THAT(PlanPods(nodes, rules).remove, IsEmpty());
  EXPECT_THAT(PlanRollout(nodes, rules).create_on, ElementsAre("b"));
  EXPECT_THAT(PlanRollout(nodes, rules).remove, IsEmpty());
}

TEST(RolloutTest, WithSurgeANodeNeverHasThreeAndABrokenOldPodGivesWay) {
  const Rules rules{.hash = "new", .max_surge = 1, .max_unavailable = 0};
  Nodes nodes = {
      {"a", {kRuns, {One("a1", "old"), One("a2", "old"), One("a3", "new", State::kUnready)}}},
      {"b", {kRuns, {One("b1", "old", State::kUnready), One("b2", "new", State::kUnready)}}},
      {"c", {kRuns, {One("c1", "old", State::kAvailable, true)}}},
  };
  const Plan plan = PlanPods(nodes, rules);
  EXPECT_THAT(Names(plan.remove), ElementsAre("a2", "b1"));
  EXPECT_THAT(plan.create_on, ElementsAre("c"));
  // Unavailable ones are replaced beyond the limit.
  nodes = {{"a", {kRuns, {One("a1", "old", State::kUnready)}}},
           {"b", {kRuns, {One("b1", "old", State::kUnready)}}}};
  EXPECT_THAT(PlanRollout(nodes, rules).create_on, ElementsAre("a", "b"));
  // Where a new pod does not belong the old one stays as it is.
  nodes = {{"a", {kStays, {One("a1", "old")}}}};
  EXPECT_THAT(PlanRollout(nodes, rules).create_on, IsEmpty());
}

TEST(RolloutTest, LimitsAreNumbersOrPercentages) {
  const auto rules = [](const Json& surge, const Json& unavailable, size_t desired) {
    return RulesOf(
        api::DaemonSet(MakeDaemonSet(
            "log",
            {{"spec",
              {{"updateStrategy",
                {{"rollingUpdate", {{"maxSurge", surge}, {"maxUnavailable", unavailable}}}}}}}})),
        "h", desired);
  };
  EXPECT_EQ(rules(0, 3, 10).max_unavailable, 3U);
  EXPECT_EQ(rules(0, "25%", 10).max_unavailable, 3U);  // rounded up
  EXPECT_EQ(rules("10%", 0, 11).max_surge, 2U);
  EXPECT_EQ(rules("10%", 0, 11).max_unavailable, 0U);
  EXPECT_EQ(rules(0, 0, 5).max_unavailable, 1U);
  EXPECT_EQ(rules("0%", "0%", 5).max_unavailable, 1U);
  EXPECT_EQ(rules(nullptr, nullptr, 5).max_unavailable, 1U);
}

TEST(RolloutTest, AvailableIsReadyForAWhile) {
  const api::Pod pod(MakePod("a", "",
                             {{"status",
                               {{"conditions",
                                 {{{"type", "Ready"},
                                   {"status", "True"},
                                   {"lastTransitionTime", "2026-01-01T00:00:00Z"}}}}}}}));
  const auto at = [](std::string_view time) { return *api::ParseTime(time); };
  EXPECT_TRUE(IsAvailable(pod, 0, at("2026-01-01T00:00:00Z")));
  EXPECT_FALSE(IsAvailable(pod, 10, at("2026-01-01T00:00:09Z")));
  EXPECT_TRUE(IsAvailable(pod, 10, at("2026-01-01T00:00:10Z")));
  EXPECT_FALSE(IsAvailable(api::Pod(MakePod("b", "")), 0, at("2026-01-01T00:00:10Z")));
}

}  // namespace
}  // namespace berth::controllers::daemonset
