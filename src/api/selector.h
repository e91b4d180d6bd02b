// Selectors by label and by field, and the node selectors of node affinity. Pure; a parsed selector
// is immutable and thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "api/object.h"
#include "base/status.h"

namespace berth::api {

// One requirement on a map of strings.
struct Requirement {
  enum class Operator { kIn, kNotIn, kExists, kDoesNotExist, kGreater, kLess };
  std::string key;
  Operator op = Operator::kExists;
  std::vector<std::string> values;  // kIn, kNotIn: one or more; kGreater, kLess: one whole number

  bool Matches(const Labels& labels) const;
};

class LabelSelector {
 public:
  LabelSelector() = default;  // matches everything

  // Parses "a=b,c!=d,e in (f,g),h notin (i),j,!k". INVALID_ARGUMENT, in Kubernetes' words: `text`
  // is malformed.
  static base::StatusOr<LabelSelector> Parse(std::string_view text);
  // Parses a LabelSelector of the API: matchLabels and matchExpressions. An empty one matches
  // everything. An absent one has no general meaning, so the caller must not pass it.
  // INVALID_ARGUMENT: it is malformed.
  static base::StatusOr<LabelSelector> FromJson(const Json& selector);

  bool Matches(const Labels& labels) const;
  bool empty() const { return requirements_.empty(); }
  std::span<const Requirement> requirements() const { return requirements_; }

 private:
  std::vector<Requirement> requirements_;
};

// The field paths by which objects of `kind` can be selected, besides metadata.name and
// metadata.namespace, which every kind has.
std::span<const std::string_view> SelectableFields(const KindInfo& kind);

class FieldSelector {
 public:
  FieldSelector() = default;  // matches everything

  // Parses "spec.nodeName=a,status.phase!=Failed"; '\' escapes ',', '=' and itself. `more` are
  // further paths besides SelectableFields: those of a custom resource. INVALID_ARGUMENT: `text` is
  // malformed, or has a field by which `kind` cannot be selected ("field label not supported: x").
  static base::StatusOr<FieldSelector> Parse(const KindInfo& kind, std::string_view text,
                                             std::span<const std::string> more = {});

  // Whether the selector matches an object, which is in its stored form (KindInfo::stored_as). An
  // absent field counts as "", an absent boolean as "false".
  bool Matches(const Json& object) const;
  bool empty() const { return terms_.empty(); }
  // The value that `field` must have, if the selector requires one: with it a server can read one
  // object instead of a list.
  std::optional<std::string> RequiredValue(std::string_view field) const;

 private:
  struct Term {
    std::string field;
    std::string value;
    bool equal = true;
  };
  std::vector<Term> terms_;
};

// Whether a node satisfies `node_selector`, which is a NodeSelector of the API:
// PersistentVolume.spec.nodeAffinity.required or
// Pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution. One of its
// nodeSelectorTerms must match; a term without expressions and fields matches nothing.
// INVALID_ARGUMENT: it has an unknown operator or field.
base::StatusOr<bool> NodeSelectorMatches(const Json& node_selector, const Labels& node_labels,
                                         std::string_view node_name);

}  // namespace berth::api
