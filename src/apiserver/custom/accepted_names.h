// Which names a CustomResourceDefinition may have: those that no other kind of its group has. Pure.
#pragma once

#include <set>
#include <string>

#include "base/json.h"

namespace berth::apiserver {

using base::Json;

// The names that are taken, by group. Those of the built-in kinds always are.
class UsedNames {
 public:
  UsedNames();

  // status.acceptedNames of a definition.
  void AddAccepted(const Json& definition);

  bool HasResource(const std::string& group, const std::string& name) const;  // plural, singular,
                                                                              // short names
  bool HasKind(const std::string& group, const std::string& name) const;      // kind, list kind

 private:
  std::set<std::pair<std::string, std::string>> resources_;
  std::set<std::pair<std::string, std::string>> kinds_;
};

// Sets status.acceptedNames to what spec.names asks for and nobody else has, and the conditions
// NamesAccepted and (at first) Established and KubernetesAPIApprovalPolicyConformant. `now` as in
// lastTransitionTime.
void AcceptNamesOf(Json& definition, const UsedNames& used, const std::string& now);

}  // namespace berth::apiserver
