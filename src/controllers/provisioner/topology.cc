#include "controllers/provisioner/topology.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/ids.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;
using csi::v1::TopologyRequirement;

namespace {

using Keys = std::vector<std::string>;
using Terms = std::vector<TopologyTerm>;

// The combinations of a class's allowedTopologies are limited, because a malformed class could have
// too many of them.
constexpr size_t kMaxTerms = 10000;

bool TermLess(const TopologyTerm& a, const TopologyTerm& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

bool IsSubset(const TopologyTerm& part, const TopologyTerm& whole) {
  return std::all_of(part.begin(), part.end(), [&](const auto& segment) {
    const auto it = whole.find(segment.first);
    return it != whole.end() && it->second == segment.second;
  });
}

template <typename T>
const T* Named(const std::vector<std::shared_ptr<const T>>& objects, const std::string& name) {
  for (const auto& object : objects) {
    if (object->name() == name) return object.get();
  }
  return nullptr;
}

StatusOr<Keys> SelectedKeys(const TopologyQuestion& question) {
  const api::CsiNode* csi_node = Named(question.csi_nodes, question.selected_node);
  if (csi_node == nullptr) {
    return Error(StatusCode::kNotFound, "CSINode '{}' is not there", question.selected_node);
  }
  const auto driver = csi_node->driver(question.driver);
  if (!driver.has_value() || driver->topology_keys.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "driver '{}' has no topology keys on node '{}': it is not registered there (yet)",
                 question.driver, question.selected_node);
  }
  return driver->topology_keys;
}

StatusOr<Keys> AnyKeys(const TopologyQuestion& question) {
  const api::CsiNode* first = nullptr;
  Keys keys;
  for (const auto& csi_node : question.csi_nodes) {
    const auto driver = csi_node->driver(question.driver);
    if (!driver.has_value() || driver->topology_keys.empty()) continue;
    if (first == nullptr || csi_node->name() < first->name()) {
      first = csi_node.get();
      keys = driver->topology_keys;
    }
  }
  if (first == nullptr) {
    return Error(StatusCode::kFailedPrecondition,
                 "no available topology found: driver '{}' is registered on no node",
                 question.driver);
  }
  return keys;
}

StatusOr<TopologyTerm> SelectedTerm(const TopologyQuestion& question, const Keys& keys) {
  const api::Node* node = Named(question.nodes, question.selected_node);
  if (node == nullptr) {
    return Error(StatusCode::kNotFound, "node '{}' is not there", question.selected_node);
  }
  std::optional<TopologyTerm> term = TermOf(*node, keys);
  if (!term.has_value()) {
    return Error(StatusCode::kFailedPrecondition,
                 "node '{}' lacks a label that driver '{}' names as topology key",
                 question.selected_node, question.driver);
  }
  return *term;
}

// Returns all combinations of the values that the terms of allowedTopologies list for their keys. A
// term without keys has none.
StatusOr<Terms> Flatten(const Json& allowed) {
  Terms out;
  for (const Json& selector : allowed) {
    const Json& expressions = base::json::Array(selector, {"matchLabelExpressions"});
    if (expressions.empty()) continue;
    Terms partial = {{}};
    for (const Json& expression : expressions) {
      const std::string key = base::json::String(expression, {"key"});
      const Json& values = base::json::Array(expression, {"values"});
      if (partial.size() * values.size() > kMaxTerms) {
        return Error(StatusCode::kInvalidArgument,
                     "allowedTopologies stands for more than {} combinations", kMaxTerms);
      }
      Terms longer;
      for (const TopologyTerm& term : partial) {
        for (const Json& value : values) {
          if (!value.is_string()) continue;
          TopologyTerm with = term;
          with[key] = value.get<std::string>();
          longer.push_back(std::move(with));
        }
      }
      partial = std::move(longer);
    }
    out.insert(out.end(), partial.begin(), partial.end());
  }
  return out;
}

void SortUnique(Terms& terms) {
  std::sort(terms.begin(), terms.end(), TermLess);
  terms.erase(std::unique(terms.begin(), terms.end()), terms.end());
}

void Append(const TopologyTerm& term, google::protobuf::RepeatedPtrField<csi::v1::Topology>* out) {
  out->Add()->mutable_segments()->insert(term.begin(), term.end());
}

TopologyRequirement Assemble(const Terms& terms, size_t first) {
  TopologyRequirement out;
  for (const TopologyTerm& term : terms) Append(term, out.mutable_requisite());
  for (size_t i = 0; i < terms.size(); ++i) {
    Append(terms[(first + i) % terms.size()], out.mutable_preferred());
  }
  return out;
}

}  // namespace

std::optional<TopologyTerm> TermOf(const api::Node& node, const std::vector<std::string>& keys) {
  const api::Labels labels = node.labels();
  TopologyTerm term;
  for (const std::string& key : keys) {
    const auto it = labels.find(key);
    if (it == labels.end()) return std::nullopt;
    term.emplace(key, it->second);
  }
  return term;
}

uint32_t SpreadIndex(std::string_view claim_name) {
  std::string_view hashed = claim_name;
  uint32_t index = 0;
  if (const size_t dash = claim_name.rfind('-'); dash != std::string_view::npos) {
    const std::string_view number = claim_name.substr(dash + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error == std::errc() && end == number.data() + number.size()) {
      hashed = claim_name.substr(0, dash);
      if (const size_t before = hashed.rfind('-'); before != std::string_view::npos) {
        hashed.remove_prefix(before + 1);
      }
    } else {
      index = 0;
    }
  }
  return base::Fnv1_32(hashed) + index;
}

StatusOr<std::optional<TopologyRequirement>> RequireTopology(const TopologyQuestion& question) {
  const bool delayed = !question.selected_node.empty();
  const bool limited = question.allowed != nullptr && !question.allowed->empty();
  Terms requisite;
  if (limited) {
    ASSIGN_OR_RETURN(requisite, Flatten(*question.allowed));
  }
  // The driver's keys are not asked for where they are not needed, because a driver that names none
  // on any node is served, too.
  if (!delayed && !limited && !question.immediate_topology) {
    return std::optional<TopologyRequirement>();
  }
  Keys keys;
  if (delayed || !limited) {
    ASSIGN_OR_RETURN(keys, delayed ? SelectedKeys(question) : AnyKeys(question));
  }
  TopologyTerm selected;
  if (delayed) {
    ASSIGN_OR_RETURN(selected, SelectedTerm(question, keys));
  }
  if (delayed && question.strict) {
    if (limited && std::none_of(requisite.begin(), requisite.end(),
                                [&](const auto& t) { return IsSubset(t, selected); })) {
      return Error(StatusCode::kFailedPrecondition,
                   "node '{}' is outside the class's allowedTopologies", question.selected_node);
    }
    return Assemble({selected}, 0);
  }
  if (!limited) {
    for (const auto& node : question.nodes) {
      if (std::optional<TopologyTerm> term = TermOf(*node, keys)) requisite.push_back(*term);
    }
  } else if (requisite.empty()) {
    return std::optional<TopologyRequirement>();
  }
  if (requisite.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "no node has all the labels that driver '{}' names as topology keys",
                 question.driver);
  }
  SortUnique(requisite);
  if (!delayed) return Assemble(requisite, SpreadIndex(question.claim_name) % requisite.size());
  for (size_t i = 0; i < requisite.size(); ++i) {
    if (IsSubset(requisite[i], selected)) return Assemble(requisite, i);
  }
  return Error(StatusCode::kFailedPrecondition,
               "node '{}' is outside the class's allowedTopologies", question.selected_node);
}

Json NodeAffinity(const google::protobuf::RepeatedPtrField<csi::v1::Topology>& topologies) {
  Json terms = Json::array();
  for (const csi::v1::Topology& topology : topologies) {
    if (topology.segments().empty()) continue;  // a term without keys would match no node
    Json expressions = Json::array();
    // The segments are sorted, because a proto map has no fixed order and the object must have one.
    const TopologyTerm segments(topology.segments().begin(), topology.segments().end());
    for (const auto& [key, value] : segments) {
      expressions.push_back({{"key", key}, {"operator", "In"}, {"values", Json::array({value})}});
    }
    terms.push_back({{"matchExpressions", std::move(expressions)}});
  }
  if (terms.empty()) return nullptr;
  return {{"required", {{"nodeSelectorTerms", std::move(terms)}}}};
}

}  // namespace berth::controllers::provisioner
