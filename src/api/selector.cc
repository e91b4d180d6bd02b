#include "api/selector.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/names.h"
#include "base/log.h"

namespace berth::api {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Operator = Requirement::Operator;

constexpr size_t kMaxSelectorBytes = 64 * 1024;

std::optional<int64_t> ParseWholeNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status CheckRequirement(const Requirement& requirement) {
  if (const Status valid = CheckQualifiedName(requirement.key); !valid.ok()) {
    return Error(StatusCode::kInvalidArgument, "key: Invalid value: \"{}\": {}", requirement.key,
                 base::Message(valid));
  }
  switch (requirement.op) {
    case Operator::kIn:
    case Operator::kNotIn:
      if (requirement.values.empty()) {
        return Error(
            StatusCode::kInvalidArgument,
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty");
      }
      break;
    case Operator::kExists:
    case Operator::kDoesNotExist:
      if (!requirement.values.empty()) {
        return Error(
            StatusCode::kInvalidArgument,
            "values: Invalid value: values set must be empty for exists and does not exist");
      }
      break;
    case Operator::kGreater:
    case Operator::kLess:
      if (requirement.values.size() != 1 || !ParseWholeNumber(requirement.values.front())) {
        return Error(
            StatusCode::kInvalidArgument,
            "values: Invalid value: for 'Gt', 'Lt' operators, the value must be one integer");
      }
      return base::OkStatus();
  }
  for (const std::string& value : requirement.values) {
    if (const Status valid = CheckLabelValue(value); !valid.ok()) {
      return Error(StatusCode::kInvalidArgument, "values: Invalid value: \"{}\": {}", value,
                   base::Message(valid));
    }
  }
  return base::OkStatus();
}

// Splits a label selector's text into words and the symbols = == != ! ( ) , < >.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text) { ReadToken(); }

  std::string_view token() const { return token_; }
  bool is_word() const { return word_; }
  bool done() const { return token_.empty(); }

  void ReadToken() {
    while (!rest_.empty() && IsSpace(rest_.front())) rest_.remove_prefix(1);
    size_t length = 0;
    while (length < rest_.size() && !IsSpace(rest_[length]) && !IsSymbol(rest_[length])) ++length;
    word_ = length > 0;
    if (!word_ && !rest_.empty()) {
      length = rest_.starts_with("==") || rest_.starts_with("!=") ? 2 : 1;
    }
    token_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
  }

  bool SkipToken(std::string_view token) {
    if (token_ != token) return false;
    ReadToken();
    return true;
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  static bool IsSymbol(char c) {
    return std::string_view("=!(),<>").find(c) != std::string_view::npos;
  }

  std::string_view rest_;
  std::string_view token_;
  bool word_ = false;
};

Status Unexpected(const Lexer& lexer, std::string_view expected) {
  if (lexer.done()) {
    return Error(StatusCode::kInvalidArgument,
                 "unable to parse requirement: found end of the selector, expected: {}", expected);
  }
  return Error(StatusCode::kInvalidArgument, "unable to parse requirement: found {}, expected: {}",
               base::Quote(lexer.token()), expected);
}

// Parses "(a, b,)". An empty word is the empty value.
StatusOr<std::vector<std::string>> ParseValues(Lexer& lexer) {
  if (!lexer.SkipToken("(")) return Unexpected(lexer, "'('");
  std::vector<std::string> values;
  while (true) {
    std::string value;
    if (lexer.is_word()) {
      value = lexer.token();
      lexer.ReadToken();
    }
    values.push_back(std::move(value));
    if (lexer.SkipToken(")")) break;
    if (!lexer.SkipToken(",")) return Unexpected(lexer, "',' or ')'");
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

StatusOr<Requirement> ParseRequirement(Lexer& lexer) {
  Requirement requirement;
  const bool negated = lexer.SkipToken("!");
  if (!lexer.is_word()) return Unexpected(lexer, "!, identifier, or end of the selector");
  requirement.key = lexer.token();
  lexer.ReadToken();
  if (negated || lexer.done() || lexer.token() == ",") {
    requirement.op = negated ? Operator::kDoesNotExist : Operator::kExists;
    return requirement;
  }
  if (lexer.is_word() && (lexer.token() == "in" || lexer.token() == "notin")) {
    requirement.op = lexer.token() == "in" ? Operator::kIn : Operator::kNotIn;
    lexer.ReadToken();
    ASSIGN_OR_RETURN(requirement.values, ParseValues(lexer));
    return requirement;
  }
  const std::string_view symbol = lexer.token();
  if (symbol == "=" || symbol == "==") {
    requirement.op = Operator::kIn;
  } else if (symbol == "!=") {
    requirement.op = Operator::kNotIn;
  } else if (symbol == ">" || symbol == "<") {
    requirement.op = symbol == ">" ? Operator::kGreater : Operator::kLess;
  } else {
    return Unexpected(lexer, "in, notin, =, ==, !=, <, >");
  }
  lexer.ReadToken();
  requirement.values.emplace_back(lexer.is_word() ? lexer.token() : "");
  if (lexer.is_word()) lexer.ReadToken();
  return requirement;
}

StatusOr<Operator> OperatorOf(std::string_view name, bool for_nodes) {
  if (name == "In") return Operator::kIn;
  if (name == "NotIn") return Operator::kNotIn;
  if (name == "Exists") return Operator::kExists;
  if (name == "DoesNotExist") return Operator::kDoesNotExist;
  if (for_nodes && name == "Gt") return Operator::kGreater;
  if (for_nodes && name == "Lt") return Operator::kLess;
  return Error(StatusCode::kInvalidArgument, "\"{}\" is not a valid {} operator", name,
               for_nodes ? "node selector" : "label selector");
}

// {key, operator, values} as in matchExpressions and matchFields.
StatusOr<Requirement> RequirementOf(const Json& expression, bool for_nodes) {
  Requirement requirement{.key = base::json::String(expression, {"key"}), .op = {}, .values = {}};
  ASSIGN_OR_RETURN(requirement.op,
                   OperatorOf(base::json::String(expression, {"operator"}), for_nodes));
  for (const Json& value : base::json::Array(expression, {"values"})) {
    if (!value.is_string()) {
      return Error(StatusCode::kInvalidArgument, "values of key \"{}\" must be strings",
                   requirement.key);
    }
    requirement.values.push_back(value.get<std::string>());
  }
  return requirement;
}

constexpr std::array<std::string_view, 9> kPodFields = {"spec.nodeName",
                                                        "spec.restartPolicy",
                                                        "spec.schedulerName",
                                                        "spec.serviceAccountName",
                                                        "spec.hostNetwork",
                                                        "status.phase",
                                                        "status.podIP",
                                                        "status.podIPs",
                                                        "status.nominatedNodeName"};
constexpr std::array<std::string_view, 1> kNodeFields = {"spec.unschedulable"};
constexpr std::array<std::string_view, 1> kNamespaceFields = {"status.phase"};
constexpr std::array<std::string_view, 1> kSecretFields = {"type"};
constexpr std::array<std::string_view, 1> kHostMountFields = {"spec.nodeName"};
constexpr std::array<std::string_view, 11> kEventFields = {"involvedObject.kind",
                                                           "involvedObject.namespace",
                                                           "involvedObject.name",
                                                           "involvedObject.uid",
                                                           "involvedObject.apiVersion",
                                                           "involvedObject.resourceVersion",
                                                           "involvedObject.fieldPath",
                                                           "reason",
                                                           "reportingComponent",
                                                           "source",
                                                           "type"};

// The fields of an Event of events.k8s.io, and their names in the core Event as which it is stored.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kEventsEventFields = {{
    {"regarding.kind", "involvedObject.kind"},
    {"regarding.namespace", "involvedObject.namespace"},
    {"regarding.name", "involvedObject.name"},
    {"regarding.uid", "involvedObject.uid"},
    {"regarding.apiVersion", "involvedObject.apiVersion"},
    {"regarding.resourceVersion", "involvedObject.resourceVersion"},
    {"regarding.fieldPath", "involvedObject.fieldPath"},
    {"reason", "reason"},
    {"reportingController", "reportingComponent"},
    {"type", "type"},
}};

const Json* FindField(const Json& object, std::string_view field) {
  const Json* at = &object;
  while (true) {
    const size_t dot = field.find('.');
    if (!at->is_object()) return nullptr;
    const auto it = at->find(field.substr(0, dot));
    if (it == at->end()) return nullptr;
    at = &*it;
    if (dot == std::string_view::npos) return at;
    field.remove_prefix(dot + 1);
  }
}

std::string StoredField(const std::string& field) {
  for (const auto& [own, stored] : kEventsEventFields) {
    if (field == own) return std::string(stored);
  }
  return field;
}

std::string FieldValue(const Json& object, std::string_view field) {
  // As in Kubernetes, an event's source is source.component, or else reportingComponent.
  if (field == "source") {
    return base::json::String(object, {"source", "component"},
                              base::json::String(object, {"reportingComponent"}));
  }
  if (field == "status.podIPs") {
    std::string all;
    for (const Json& ip : base::json::Array(object, {"status", "podIPs"})) {
      if (!all.empty()) all += ',';
      all += base::json::String(ip, {"ip"});
    }
    return all;
  }
  if (field == "spec.hostNetwork" || field == "spec.unschedulable") {
    const Json* flag = FindField(object, field);
    return flag != nullptr && flag->is_boolean() && flag->get<bool>() ? "true" : "false";
  }
  const Json* value = FindField(object, field);
  if (value == nullptr || value->is_structured() || value->is_null()) return "";
  return value->is_string() ? value->get<std::string>() : base::json::Dump(*value);
}

}  // namespace

bool Requirement::Matches(const Labels& labels) const {
  const auto it = labels.find(key);
  const bool found = it != labels.end();
  switch (op) {
    case Operator::kExists:
      return found;
    case Operator::kDoesNotExist:
      return !found;
    case Operator::kIn:
      return found && std::find(values.begin(), values.end(), it->second) != values.end();
    case Operator::kNotIn:
      return !found || std::find(values.begin(), values.end(), it->second) == values.end();
    case Operator::kGreater:
    case Operator::kLess: {
      if (!found || values.size() != 1) return false;
      const auto have = ParseWholeNumber(it->second);
      const auto want = ParseWholeNumber(values.front());
      return have && want && (op == Operator::kGreater ? *have > *want : *have < *want);
    }
  }
  return false;
}

StatusOr<LabelSelector> LabelSelector::Parse(std::string_view text) {
  if (text.size() > kMaxSelectorBytes) {
    return Error(StatusCode::kInvalidArgument, "label selector of {} bytes exceeds the limit of {}",
                 text.size(), kMaxSelectorBytes);
  }
  LabelSelector selector;
  Lexer lexer(text);
  while (!lexer.done()) {
    ASSIGN_OR_RETURN(Requirement requirement, ParseRequirement(lexer));
    RETURN_IF_ERROR(CheckRequirement(requirement));
    selector.requirements_.push_back(std::move(requirement));
    if (lexer.done()) break;
    if (!lexer.SkipToken(",")) return Unexpected(lexer, "',' or end of the selector");
    if (lexer.done()) return Unexpected(lexer, "identifier after ','");
  }
  return selector;
}

StatusOr<LabelSelector> LabelSelector::FromJson(const Json& json) {
  LabelSelector selector;
  if (!json.is_object())
    return Error(StatusCode::kInvalidArgument, "label selector is not an object");
  for (const auto& [key, value] : base::json::Map(json, {"matchLabels"}).items()) {
    if (!value.is_string()) {
      return Error(StatusCode::kInvalidArgument, "matchLabels: value of \"{}\" is not a string",
                   key);
    }
    selector.requirements_.push_back({key, Operator::kIn, {value.get<std::string>()}});
  }
  for (const Json& expression : base::json::Array(json, {"matchExpressions"})) {
    ASSIGN_OR_RETURN(Requirement requirement, RequirementOf(expression, /*for_nodes=*/false));
    selector.requirements_.push_back(std::move(requirement));
  }
  for (const Requirement& requirement : selector.requirements_) {
    RETURN_IF_ERROR(CheckRequirement(requirement));
  }
  return selector;
}

bool LabelSelector::Matches(const Labels& labels) const {
  return std::all_of(requirements_.begin(), requirements_.end(),
                     [&](const Requirement& requirement) { return requirement.Matches(labels); });
}

std::span<const std::string_view> SelectableFields(const KindInfo& kind) {
  if (&kind == &kinds::kPod) return kPodFields;
  if (&kind == &kinds::kNode) return kNodeFields;
  if (&kind == &kinds::kNamespace) return kNamespaceFields;
  if (&kind == &kinds::kSecret) return kSecretFields;
  if (&kind == &kinds::kEvent) return kEventFields;
  if (&kind == &kinds::kEventsEvent) {
    static const auto fields = [] {
      std::array<std::string_view, kEventsEventFields.size()> names;
      std::ranges::transform(kEventsEventFields, names.begin(),
                             [](auto& one) { return one.first; });
      return names;
    }();
    return fields;
  }
  if (&kind == &kinds::kHostMount) return kHostMountFields;
  return {};
}

StatusOr<FieldSelector> FieldSelector::Parse(const KindInfo& kind, std::string_view text,
                                             std::span<const std::string> more) {
  if (text.size() > kMaxSelectorBytes) {
    return Error(StatusCode::kInvalidArgument, "field selector of {} bytes exceeds the limit of {}",
                 text.size(), kMaxSelectorBytes);
  }
  const auto fields = SelectableFields(kind);
  FieldSelector selector;
  for (size_t at = 0; at < text.size();) {
    Term term;
    bool in_value = false;
    for (; at < text.size() && text[at] != ','; ++at) {
      const char c = text[at];
      std::string& part = in_value ? term.value : term.field;
      if (c == '\\') {
        if (at + 1 == text.size() ||
            std::string_view("\\,=").find(text[at + 1]) == std::string_view::npos) {
          return Error(StatusCode::kInvalidArgument,
                       "invalid field selector: invalid escape sequence in {}", base::Quote(text));
        }
        part += text[++at];
      } else if (!in_value && (c == '=' || (c == '!' && text.substr(at + 1).starts_with('=')))) {
        term.equal = c == '=';
        in_value = true;
        if (text.substr(at + 1).starts_with('=')) ++at;
      } else if (c == '=') {
        return Error(StatusCode::kInvalidArgument,
                     "invalid field selector: unescaped '=' in value of {}", base::Quote(text));
      } else {
        part += c;
      }
    }
    if (at < text.size()) ++at;  // the comma
    if (!in_value) {
      if (term.field.empty()) continue;
      return Error(
          StatusCode::kInvalidArgument,
          "invalid selector: {}; can't understand {}, expected FIELD=VALUE or FIELD!=VALUE",
          base::Quote(text), base::Quote(term.field));
    }
    if (term.field != "metadata.name" && term.field != "metadata.namespace" &&
        std::find(fields.begin(), fields.end(), term.field) == fields.end() &&
        std::find(more.begin(), more.end(), term.field) == more.end()) {
      return Error(StatusCode::kInvalidArgument, "field label not supported: {}", term.field);
    }
    if (&kind == &kinds::kEventsEvent) term.field = StoredField(term.field);
    selector.terms_.push_back(std::move(term));
  }
  return selector;
}

bool FieldSelector::Matches(const Json& object) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return (FieldValue(object, term.field) == term.value) == term.equal;
  });
}

std::optional<std::string> FieldSelector::RequiredValue(std::string_view field) const {
  for (const Term& term : terms_) {
    if (term.equal && term.field == field) return term.value;
  }
  return std::nullopt;
}

StatusOr<bool> NodeSelectorMatches(const Json& node_selector, const Labels& node_labels,
                                   std::string_view node_name) {
  bool matched = false;
  for (const Json& term : base::json::Array(node_selector, {"nodeSelectorTerms"})) {
    const Json& expressions = base::json::Array(term, {"matchExpressions"});
    const Json& fields = base::json::Array(term, {"matchFields"});
    bool all = !expressions.empty() || !fields.empty();
    for (const Json& expression : expressions) {
      ASSIGN_OR_RETURN(const Requirement requirement,
                       RequirementOf(expression, /*for_nodes=*/true));
      all = all && requirement.Matches(node_labels);
    }
    for (const Json& field : fields) {
      ASSIGN_OR_RETURN(const Requirement requirement, RequirementOf(field, /*for_nodes=*/true));
      if (requirement.key != "metadata.name" ||
          (requirement.op != Operator::kIn && requirement.op != Operator::kNotIn)) {
        return Error(StatusCode::kInvalidArgument,
                     "matchFields: only metadata.name with In or NotIn is supported, not \"{}\"",
                     requirement.key);
      }
      all = all && requirement.Matches({{"metadata.name", std::string(node_name)}});
    }
    matched = matched || all;
  }
  return matched;
}

}  // namespace berth::api
