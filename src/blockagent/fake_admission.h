// Evaluates ValidatingAdmissionPolicies with their bindings, as kube-apiserver does before it
// stores a write. It supports what deploy/block-agent uses of them: resourceRules, matchConditions,
// variables, validations with a message, and parameters that are all objects of a kind. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/cel/program.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::blockagent {

struct AdmissionWrite {
  std::string_view group;
  std::string_view resource;
  std::string_view subresource;
  base::Json user;    // the userInfo of an AdmissionRequest
  base::Json before;  // null: a create
  base::Json after;   // null: a delete
};

class AdmissionPolicies {
 public:
  // Lists the objects of a kind that is the parameter of a policy: "Node".
  using ListObjects = std::function<std::vector<base::Json>(const std::string& kind)>;

  // Reads the policies and bindings in the YAML texts. INVALID_ARGUMENT: a text is not YAML, an
  // expression does not compile, or a policy has no binding that denies.
  static base::StatusOr<AdmissionPolicies> Read(std::span<const std::string_view> manifests);

  // PERMISSION_DENIED with the message of the first validation that is false. INTERNAL: an
  // expression cannot be evaluated; kube-apiserver refuses such a write, too (failurePolicy Fail).
  base::Status Check(const AdmissionWrite& write, const ListObjects& list_objects) const;

 private:
  struct Rule {
    std::string text;
    api::cel::Program program;
    std::string message;  // of a validation
  };
  struct Policy {
    std::string name;
    base::Json resources;    // matchConstraints.resourceRules
    std::string param_kind;  // empty: no parameter
    std::vector<Rule> conditions;
    std::vector<Rule> validations;
  };

  static base::StatusOr<Policy> ReadPolicy(const base::Json& object);
  static base::StatusOr<bool> EvaluateRule(const Policy& policy, const Rule& rule,
                                           const base::Json& input);
  static base::Status CheckPolicy(const Policy& policy, const base::Json& input);

  std::vector<Policy> policies_;
};

}  // namespace berth::blockagent
