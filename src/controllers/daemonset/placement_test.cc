#include "controllers/daemonset/placement.h"

#include <gmock/gmock.h>

#include "api/kinds/taints.h"
#include "controllers/daemonset/fake_daemon_set.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::daemonset {
namespace {

using api::MakeTaint;
using base::Json;

api::DaemonSet SetWith(const Json& pod_spec) {
  return api::DaemonSet(MakeDaemonSet("log", {{"spec", {{"template", {{"spec", pod_spec}}}}}}));
}

api::Node NodeWith(const Json& taints, const Json& labels = Json::object()) {
  return api::Node(
      MakeNode("node-a", {{"metadata", {{"labels", labels}}}, {"spec", {{"taints", taints}}}}));
}

Json Required(const std::string& key, const std::string& value) {
  return {{"affinity",
           {{"nodeAffinity",
             {{"requiredDuringSchedulingIgnoredDuringExecution",
               {{"nodeSelectorTerms",
                 {{{"matchExpressions",
                    {{{"key", key}, {"operator", "In"}, {"values", {value}}}}}}}}}}}}}}};
}

TEST(PlacementTest, ANodeIsChosenByNameSelectorAndAffinity) {
  const api::Node node = NodeWith(Json::array(), {{"disk", "ssd"}});
  const struct {
    Json spec;
    bool fits;
  } cases[] = {
      {Json::object(), true},
      {{{"nodeName", "node-a"}}, true},
      {{{"nodeName", "node-b"}}, false},
      {{{"nodeSelector", {{"disk", "ssd"}}}}, true},
      {{{"nodeSelector", {{"disk", "hdd"}}}}, false},
      {Required("disk", "ssd"), true},
      {Required("disk", "hdd"), false},
  };
  for (const auto& one : cases) {
    const Fit fit = FitOf(SetWith(one.spec), node);
    EXPECT_EQ(fit.run, one.fits) << one.spec;
    EXPECT_EQ(fit.stay, one.fits) << one.spec;
  }
}

TEST(PlacementTest, ATaintKeepsPodsAwayAndOneOfThemDrivesThemOut) {
  const Json all = {{"tolerations", Json::array({{{"operator", "Exists"}}})}};
  const Json host = {{"hostNetwork", true}};
  const struct {
    std::string_view key;
    std::string_view effect;
    Json spec;
    bool run, stay;
  } cases[] = {
      {"gpu", "NoSchedule", Json::object(), false, true},
      {"gpu", "NoExecute", Json::object(), false, false},
      {"gpu", "PreferNoSchedule", Json::object(), true, true},
      {"gpu", "NoExecute", all, true, true},
      {kNotReadyTaint, "NoExecute", Json::object(), true, true},
      {kNotReadyTaint, "NoSchedule", Json::object(), false, true},
      {kUnreachableTaint, "NoExecute", Json::object(), true, true},
      {kUnschedulableTaint, "NoSchedule", Json::object(), true, true},
      {kDiskPressureTaint, "NoSchedule", Json::object(), true, true},
      {kMemoryPressureTaint, "NoSchedule", Json::object(), true, true},
      {kPidPressureTaint, "NoSchedule", Json::object(), true, true},
      {kNetworkUnavailableTaint, "NoSchedule", Json::object(), false, true},
      {kNetworkUnavailableTaint, "NoSchedule", host, true, true},
      {kOutOfServiceTaint, "NoExecute", Json::object(), false, false},
  };
  for (const auto& one : cases) {
    const Fit fit =
        FitOf(SetWith(one.spec), NodeWith(Json::array({MakeTaint(one.key, "", one.effect)})));
    EXPECT_EQ(fit.run, one.run) << one.key << one.effect << one.spec;
    EXPECT_EQ(fit.stay, one.stay) << one.key << one.effect << one.spec;
  }
}

TEST(PlacementTest, ADaemonPodIsPinnedLabelledAndControlled) {
  const api::DaemonSet set = SetWith(Required("disk", "ssd"));
  const api::Pod pod(MakeDaemonPod(set, api::NodeName("node-a"), "h4sh"));
  EXPECT_EQ(pod.String({"metadata", "generateName"}), "log-");
  EXPECT_EQ(pod.label("app"), "log");
  EXPECT_EQ(pod.label("controller-revision-hash"), "h4sh");
  EXPECT_EQ(pod.label("pod-template-generation"), "1");
  ASSERT_TRUE(pod.controller().has_value());
  EXPECT_EQ(pod.controller()->uid, "uid-log");
  EXPECT_TRUE(pod.controller()->block_owner_deletion);
  EXPECT_EQ(pod.node_name(), "");
  EXPECT_EQ(TargetNode(pod), "node-a");
  // The one term is the pin: the node's labels may change later.
  EXPECT_EQ(base::json::Array(*pod.required_node_affinity(), {"nodeSelectorTerms"}).size(), 1U);
  EXPECT_EQ(pod.tolerations().size(), 6U);
}

TEST(PlacementTest, ATolerationForATimeBecomesOneForEver) {
  const api::DaemonSet set = SetWith({{"tolerations", Json::array({{{"key", kNotReadyTaint},
                                                                    {"operator", "Exists"},
                                                                    {"effect", "NoExecute"},
                                                                    {"tolerationSeconds", 30}}})}});
  const api::Pod pod(MakeDaemonPod(set, api::NodeName("node-a"), "h4sh"));
  ASSERT_EQ(pod.tolerations().size(), 6U);
  EXPECT_FALSE(pod.tolerations()[0].contains("tolerationSeconds"));
}

}  // namespace
}  // namespace berth::controllers::daemonset
