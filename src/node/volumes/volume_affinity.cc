#include "node/volumes/volume_affinity.h"

#include "api/selector.h"

namespace berth::node {
namespace {

using base::Json;

// "topology.example.com/zone In [a,b]; kubernetes.io/hostname In [c]"
std::string Describe(const Json& selector) {
  std::string out;
  for (const Json& term : base::json::Array(selector, {"nodeSelectorTerms"})) {
    std::string text;
    for (const char* kind : {"matchExpressions", "matchFields"}) {
      for (const Json& expression : base::json::Array(term, {kind})) {
        std::string values;
        for (const Json& value : base::json::Array(expression, {"values"})) {
          if (!values.empty()) values += ",";
          values += value.is_string() ? value.get<std::string>() : value.dump();
        }
        text += fmt::format("{}{} {} [{}]", text.empty() ? "" : " and ",
                            base::json::String(expression, {"key"}),
                            base::json::String(expression, {"operator"}), values);
      }
    }
    out += (out.empty() ? "" : ", or ") + text;
  }
  return out;
}

}  // namespace

base::Status CheckNodeAffinity(const api::PersistentVolume& volume, const api::Node& node) {
  const Json* affinity = volume.node_affinity();
  if (affinity == nullptr) return base::OkStatus();
  const auto matches = api::NodeSelectorMatches(*affinity, node.labels(), node.name());
  RETURN_IF_ERROR_WITH(matches, fmt::format("node affinity of volume '{}'", volume.name()));
  if (*matches) return base::OkStatus();
  return base::Error(base::StatusCode::kFailedPrecondition,
                     "volume node affinity conflict: volume '{}' cannot be reached from node '{}'; "
                     "it is where {}",
                     volume.name(), node.name(), Describe(*affinity));
}

}  // namespace berth::node
