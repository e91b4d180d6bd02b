#include "controllers/fake_role_rules.h"

#include "api/codecs/yaml.h"
#include "base/log.h"

namespace berth::controllers {

base::Json RulesOf(std::string_view role) {
  // "capacity" is a part of the role "provisioner", and has no role of its own.
  base::Json rules = role == "capacity" ? RulesOf("provisioner") : base::Json::array();
  for (const std::string_view text : RoleManifests()) {
    const auto documents = api::ParseYaml(text);
    if (!documents.ok()) {
      LOG_ERROR("rights of the roles: {}", base::ToString(documents.status()));
      continue;
    }
    for (const base::Json& document : *documents) {
      const std::string kind = base::json::String(document, {"kind"});
      const std::string name = base::json::String(document, {"metadata", "name"});
      if ((kind == "ClusterRole" || kind == "Role") &&
          (name == fmt::format("csi-{}", role) || name == fmt::format("berth-{}", role))) {
        rules.insert(rules.end(), document["rules"].begin(), document["rules"].end());
      }
    }
  }
  return rules;
}

}  // namespace berth::controllers
