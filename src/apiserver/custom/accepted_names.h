// Decides which of its names a CustomResourceDefinition gets: the names that no other kind of its
// group has. Pure.
#pragma once

#include <set>
#include <string>

#include "base/json.h"

namespace berth::apiserver {

using base::Json;

// The names that are in use, by group. The names of the built-in kinds are always in use.
class UsedNames {
 public:
  UsedNames();

  // Adds status.acceptedNames of a definition.
  void AddAccepted(const Json& definition);

  bool HasResource(const std::string& group, const std::string& name) const;  // plural, singular,
                                                                              // short names
  bool HasKind(const std::string& group, const std::string& name) const;      // kind, list kind

 private:
  std::set<std::pair<std::string, std::string>> resources_;
  std::set<std::pair<std::string, std::string>> kinds_;
};

// Sets status.acceptedNames to those names of spec.names that are not in `used`; a name that is in
// use keeps its previous value. Also sets the conditions NamesAccepted, Established (unless it is
// True) and, for Kubernetes' own groups, KubernetesAPIApprovalPolicyConformant. `now` has the form
// of lastTransitionTime.
void AcceptNamesOf(Json& definition, const UsedNames& used, const std::string& now);

}  // namespace berth::apiserver
