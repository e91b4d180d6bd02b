#include "controllers/daemonset/placement.h"

#include <algorithm>
#include <array>

#include "api/kinds/taints.h"
#include "api/selector.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::daemonset {

using api::FindUntolerated;
using base::Json;
using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kNodeName = "metadata.name";
constexpr char kDeprecatedGeneration[] = "deprecated.daemonset.template.generation";

struct Tolerated {
  std::string_view key;
  std::string_view effect;
};
// Every daemon pod tolerates these taints, because a daemon must not leave a node that has trouble.
constexpr std::array<Tolerated, 6> kAlways = {{
    {kNotReadyTaint, "NoExecute"},
    {kUnreachableTaint, "NoExecute"},
    {kDiskPressureTaint, "NoSchedule"},
    {kMemoryPressureTaint, "NoSchedule"},
    {kPidPressureTaint, "NoSchedule"},
    {kUnschedulableTaint, "NoSchedule"},
}};

void AddToleration(Json& tolerations, const Tolerated& tolerated) {
  Json wanted = {{"key", std::string(tolerated.key)},
                 {"operator", "Exists"},
                 {"effect", std::string(tolerated.effect)}};
  for (Json& present : tolerations) {
    // A toleration of the same taint is replaced, because it may hold for a limited time only.
    if (String(present, {"key"}) == tolerated.key &&
        String(present, {"effect"}) == tolerated.effect &&
        String(present, {"operator"}, "Equal") == "Exists") {
      present = std::move(wanted);
      return;
    }
  }
  tolerations.push_back(std::move(wanted));
}

Json TolerationsOf(const Json& spec) {
  Json tolerations = Array(spec, {"tolerations"});
  for (const Tolerated& tolerated : kAlways) AddToleration(tolerations, tolerated);
  if (base::json::Bool(spec, {"hostNetwork"})) {
    AddToleration(tolerations, {kNetworkUnavailableTaint, "NoSchedule"});
  }
  return tolerations;
}

bool Selects(const Json& spec, const api::Node& node) {
  const std::string name = String(spec, {"nodeName"});
  if (!name.empty() && name != node.name()) return false;
  const api::Labels labels = node.labels();
  for (const auto& [key, value] : Map(spec, {"nodeSelector"}).items()) {
    const auto it = labels.find(key);
    if (it == labels.end() || value != it->second) return false;
  }
  const Json* required =
      Find(spec, {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  if (required == nullptr) return true;
  const auto matches = api::NodeSelectorMatches(*required, labels, node.name());
  return matches.ok() && *matches;
}

}  // namespace

Fit FitOf(const api::DaemonSet& set, const api::Node& node) {
  const Json& spec = Map(set.pod_template(), {"spec"});
  if (!Selects(spec, node)) return {};
  const Json tolerations = TolerationsOf(spec);
  return {
      .run = FindUntolerated(node.taints(), tolerations, {"NoSchedule", "NoExecute"}) == nullptr,
      .stay = FindUntolerated(node.taints(), tolerations, {"NoExecute"}) == nullptr};
}

Json ControllerReference(const api::DaemonSet& set) {
  return {{"apiVersion", api::DaemonSet::kInfo.api_version()},
          {"kind", std::string(api::DaemonSet::kInfo.kind)},
          {"name", set.name()},
          {"uid", set.uid()},
          {"controller", true},
          {"blockOwnerDeletion", true}};
}

Json MakeDaemonPod(const api::DaemonSet& set, const api::NodeName& node, const std::string& hash) {
  const Json& pod_template = set.pod_template();
  Json metadata = {{"generateName", set.name() + "-"},
                   {"namespace", set.ns()},
                   {"ownerReferences", Json::array({ControllerReference(set)})}};
  for (const char* field : {"labels", "annotations", "finalizers"}) {
    if (const Json* value = Find(pod_template, {"metadata", field})) metadata[field] = *value;
  }
  metadata["labels"][kRevisionHash] = hash;
  const std::string generation = set.annotation(kDeprecatedGeneration);
  if (!generation.empty()) metadata["labels"][kTemplateGeneration] = generation;

  Json spec = Map(pod_template, {"spec"});
  spec["tolerations"] = TolerationsOf(spec);
  // The template's own requirements are replaced, because FitOf has checked that this node meets
  // them.
  base::json::Set(
      spec, {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
      {{"nodeSelectorTerms",
        Json::array(
            {{{"matchFields", Json::array({{{"key", std::string(kNodeName)},
                                            {"operator", "In"},
                                            {"values", Json::array({node.text()})}}})}}})}});
  return {{"apiVersion", api::Pod::kInfo.api_version()},
          {"kind", std::string(api::Pod::kInfo.kind)},
          {"metadata", std::move(metadata)},
          {"spec", std::move(spec)}};
}

std::string TargetNode(const api::Pod& pod) {
  if (const std::string node = pod.node_name(); !node.empty()) return node;
  const Json* required = pod.required_node_affinity();
  if (required == nullptr) return "";
  for (const Json& term : Array(*required, {"nodeSelectorTerms"})) {
    for (const Json& field : Array(term, {"matchFields"})) {
      const Json& values = Array(field, {"values"});
      if (String(field, {"key"}) == kNodeName && String(field, {"operator"}) == "In" &&
          values.size() == 1 && values.front().is_string()) {
        return values.front().get<std::string>();
      }
    }
  }
  return "";
}

}  // namespace berth::controllers::daemonset
