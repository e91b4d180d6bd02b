#include "controllers/fake_role_rules.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "kube/fake_rbac.h"

namespace berth::controllers {

base::Json RulesOf(std::string_view role) {
  // "capacity" is a part of the role "provisioner", and has no role of its own.
  base::Json rules = role == "capacity" ? RulesOf("provisioner") : base::Json::array();
  // The provisioner records its intents in a Lease.
  if (role == "provisioner") rules = kube::FindRoleRules(RoleManifests(), {"csi-leases"});
  const base::Json own = kube::FindRoleRules(
      RoleManifests(), {fmt::format("csi-{}", role), fmt::format("berth-{}", role)});
  rules.insert(rules.end(), own.begin(), own.end());
  // The rule that the files of these roles have as a comment, for classes that name secrets.
  constexpr std::array<std::string_view, 4> kOfSecrets = {"provisioner", "attacher", "resizer",
                                                          "snapshotter"};
  if (std::find(kOfSecrets.begin(), kOfSecrets.end(), role) != kOfSecrets.end()) {
    rules.push_back({{"apiGroups", {""}}, {"resources", {"secrets"}}, {"verbs", {"get"}}});
  }
  // The rule that is a comment, too, for --feature-gates=CrossNamespaceVolumeDataSource.
  if (role == "provisioner") {
    rules.push_back({{"apiGroups", {"gateway.networking.k8s.io"}},
                     {"resources", {"referencegrants"}},
                     {"verbs", {"get", "list", "watch"}}});
  }
  return rules;
}

}  // namespace berth::controllers
