#include "controllers/nodelifecycle/node_taints.h"

#include <gtest/gtest.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::nodelifecycle {
namespace {

using base::Json;

api::Node NodeWith(const Json& conditions, const Json& spec = Json::object()) {
  return api::Node(MakeNode("a", {{"spec", spec}, {"status", {{"conditions", conditions}}}}));
}

// "key:effect ..." in order.
std::string Names(const Json& taints) {
  std::string out;
  for (const Json& taint : taints) {
    out += (out.empty() ? "" : " ") + base::json::String(taint, {"key"}).substr(19) + ":" +
           base::json::String(taint, {"effect"});
  }
  return out;
}

TEST(NodeTaintsTest, FollowConditionsAndCordon) {
  const struct {
    Json conditions;
    Json spec;
    Eviction eviction;
    std::string taints;
  } cases[] = {
      {{{{"type", "Ready"}, {"status", "True"}}}, Json::object(), Eviction::kNone, ""},
      {{{{"type", "Ready"}, {"status", "False"}}},
       Json::object(),
       Eviction::kNone,
       "not-ready:NoSchedule"},
      {{{{"type", "Ready"}, {"status", "Unknown"}}},
       Json::object(),
       Eviction::kUnreachable,
       "unreachable:NoSchedule unreachable:NoExecute"},
      {{{{"type", "Ready"}, {"status", "True"}}, {{"type", "DiskPressure"}, {"status", "True"}}},
       {{"unschedulable", true}},
       Eviction::kNone,
       "disk-pressure:NoSchedule unschedulable:NoSchedule"},
      {{{{"type", "MemoryPressure"}, {"status", "Unknown"}}}, Json::object(), Eviction::kNone, ""},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(Names(TaintsFor(NodeWith(one.conditions, one.spec), one.eviction, "now")), one.taints)
        << one.conditions;
  }
}

TEST(NodeTaintsTest, OthersTaintsAndTheTimeOfOnesThatStayAreKept) {
  const Json taints = {
      {{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}},
      {{"key", "node.kubernetes.io/not-ready"}, {"effect", "NoExecute"}, {"timeAdded", "then"}},
      {{"key", "node.kubernetes.io/unreachable"}, {"effect", "NoExecute"}, {"timeAdded", "then"}}};
  const api::Node node = NodeWith({{{"type", "Ready"}, {"status", "False"}}}, {{"taints", taints}});
  const Json now = TaintsFor(node, Eviction::kNotReady, "now");
  ASSERT_EQ(now.size(), 3U);
  EXPECT_EQ(now[0], taints[0]);
  EXPECT_EQ(now[1], taints[1]);
  EXPECT_EQ(now[2]["key"], "node.kubernetes.io/not-ready");
  EXPECT_EQ(now[2]["effect"], "NoSchedule");
  EXPECT_EQ(now[2]["timeAdded"], "now");
}

}  // namespace
}  // namespace berth::controllers::nodelifecycle
