#include "blockagent/fake_admission.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "api/codecs/yaml.h"
#include "base/log.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::json::Array;
using base::json::String;

// What kube-apiserver lets one evaluation cost.
constexpr int64_t kBudget = 1'000'000;

bool IsNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool HasItem(const Json& list, std::string_view item) {
  return std::ranges::any_of(list, [&](const Json& one) { return one == item || one == "*"; });
}

// A policy's variables by their names. They are put in where they are used, because that is when
// kube-apiserver evaluates them.
using Variables = std::map<std::string, std::string, std::less<>>;

// Rewrites an expression for api::cel, whose one variable is "self": "object" becomes
// "self.object", and "variables.x" becomes what x stands for.
StatusOr<std::string> Rewrite(std::string_view text, const Variables& variables) {
  static constexpr std::string_view kInputs[] = {"object", "oldObject", "request", "params"};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\'' || c == '"') {
      const size_t end = text.find(c, at + 1);
      if (end == text.npos) return Error(StatusCode::kInvalidArgument, "no closing {}", c);
      out += text.substr(at, end + 1 - at);
      at = end + 1;
      continue;
    }
    if (!IsNamePart(c)) {
      out += c;
      ++at;
      continue;
    }
    const bool member = at > 0 && (text[at - 1] == '.' || text[at - 1] == '?');
    size_t end = at;
    while (end < text.size() && IsNamePart(text[end])) ++end;
    const std::string_view name = text.substr(at, end - at);
    at = end;
    if (member || (name != "variables" && std::ranges::find(kInputs, name) == std::end(kInputs))) {
      out += name;
      continue;
    }
    if (name != "variables") {
      out += fmt::format("self.{}", name);
      continue;
    }
    for (end = ++at; end < text.size() && IsNamePart(text[end]);) ++end;  // after the dot
    const auto variable = variables.find(text.substr(at, end - at));
    if (variable == variables.end()) {
      return Error(StatusCode::kInvalidArgument, "there is no variable {}",
                   Quote(text.substr(at, end - at)));
    }
    out += fmt::format("({})", variable->second);
    at = end;
  }
  return out;
}

}  // namespace

StatusOr<AdmissionPolicies::Policy> AdmissionPolicies::ReadPolicy(const Json& object) {
  Policy policy{.name = String(object, {"metadata", "name"}),
                .resources = Array(object, {"spec", "matchConstraints", "resourceRules"}),
                .param_kind = String(object, {"spec", "paramKind", "kind"})};
  Variables variables;
  const auto read = [&](const Json& item, api::cel::Kind wanted) -> StatusOr<Rule> {
    ASSIGN_OR_RETURN(std::string text, Rewrite(String(item, {"expression"}), variables));
    auto program = api::cel::Program::Compile(text, /*self=*/nullptr, wanted);
    RETURN_IF_ERROR_WITH(program, text);
    return Rule{std::move(text), *std::move(program), String(item, {"message"})};
  };
  for (const Json& variable : Array(object, {"spec", "variables"})) {
    ASSIGN_OR_RETURN(Rule rule, read(variable, api::cel::Kind::kAny));
    variables[String(variable, {"name"})] = std::move(rule.text);
  }
  for (const Json& condition : Array(object, {"spec", "matchConditions"})) {
    ASSIGN_OR_RETURN(Rule rule, read(condition, api::cel::Kind::kBool));
    policy.conditions.push_back(std::move(rule));
  }
  for (const Json& validation : Array(object, {"spec", "validations"})) {
    ASSIGN_OR_RETURN(Rule rule, read(validation, api::cel::Kind::kBool));
    policy.validations.push_back(std::move(rule));
  }
  return policy;
}

StatusOr<AdmissionPolicies> AdmissionPolicies::Read(std::span<const std::string_view> manifests) {
  AdmissionPolicies out;
  std::vector<std::string> bound;
  for (const std::string_view text : manifests) {
    ASSIGN_OR_RETURN(const auto documents, api::ParseYaml(text));
    for (const Json& document : documents) {
      const std::string kind = String(document, {"kind"});
      if (kind == "ValidatingAdmissionPolicy") {
        auto policy = ReadPolicy(document);
        RETURN_IF_ERROR_WITH(policy, String(document, {"metadata", "name"}));
        out.policies_.push_back(*std::move(policy));
      } else if (kind == "ValidatingAdmissionPolicyBinding" &&
                 HasItem(Array(document, {"spec", "validationActions"}), "Deny")) {
        bound.push_back(String(document, {"spec", "policyName"}));
      }
    }
  }
  for (const Policy& policy : out.policies_) {
    if (std::ranges::find(bound, policy.name) == bound.end()) {
      return Error(StatusCode::kInvalidArgument,
                   "policy {} denies nothing, because no binding does", Quote(policy.name));
    }
  }
  return out;
}

StatusOr<bool> AdmissionPolicies::EvaluateRule(const Policy& policy, const Rule& rule,
                                               const Json& input) {
  api::cel::Budget budget(kBudget);
  const auto value = rule.program.Run(input, nullptr, nullptr, budget);
  if (value.ok() && value->is(api::cel::Kind::kBool)) return value->bool_value();
  return Error(StatusCode::kInternal, "policy {}: {}: {}", Quote(policy.name), rule.text,
               value.ok() ? "not a boolean" : base::Message(value.status()));
}

Status AdmissionPolicies::CheckPolicy(const Policy& policy, const Json& input) {
  for (const Rule& condition : policy.conditions) {
    ASSIGN_OR_RETURN(const bool matches, EvaluateRule(policy, condition, input));
    if (!matches) return base::OkStatus();
  }
  for (const Rule& validation : policy.validations) {
    ASSIGN_OR_RETURN(const bool valid, EvaluateRule(policy, validation, input));
    if (!valid) {
      return Error(StatusCode::kPermissionDenied, "{}: {}", policy.name, validation.message);
    }
  }
  return base::OkStatus();
}

Status AdmissionPolicies::Check(const AdmissionWrite& write,
                                const ListObjects& list_objects) const {
  const std::string operation = write.before.is_null()  ? "CREATE"
                                : write.after.is_null() ? "DELETE"
                                                        : "UPDATE";
  const std::string resource = write.subresource.empty()
                                   ? std::string(write.resource)
                                   : fmt::format("{}/{}", write.resource, write.subresource);
  Json request = {{"operation", operation}, {"userInfo", write.user}};
  // As in an AdmissionRequest, an empty string is left out.
  if (!write.subresource.empty()) request["subResource"] = std::string(write.subresource);
  Json input = {
      {"request", std::move(request)}, {"object", write.after}, {"oldObject", write.before}};
  for (const Policy& policy : policies_) {
    const bool applies = std::ranges::any_of(policy.resources, [&](const Json& rule) {
      return HasItem(Array(rule, {"apiGroups"}), write.group) &&
             HasItem(Array(rule, {"operations"}), operation) &&
             HasItem(Array(rule, {"resources"}), resource);
    });
    if (!applies) continue;
    if (policy.param_kind.empty()) {
      RETURN_IF_ERROR(CheckPolicy(policy, input));
      continue;
    }
    for (Json& param : list_objects(policy.param_kind)) {
      input["params"] = std::move(param);
      RETURN_IF_ERROR(CheckPolicy(policy, input));
    }
    input.erase("params");
  }
  return base::OkStatus();
}

}  // namespace berth::blockagent
