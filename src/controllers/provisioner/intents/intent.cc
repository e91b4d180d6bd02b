#include "controllers/provisioner/intents/intent.h"

#include <array>

#include "api/time.h"
#include "base/base64.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

namespace {

// The names of the uses in the record, which outlives versions of the program.
constexpr std::array kUseNames = {
    std::pair{SecretUse::kProvisioner, "provisioner"},
    std::pair{SecretUse::kControllerPublish, "controllerPublish"},
    std::pair{SecretUse::kNodeStage, "nodeStage"},
    std::pair{SecretUse::kNodePublish, "nodePublish"},
    std::pair{SecretUse::kControllerExpand, "controllerExpand"},
    std::pair{SecretUse::kNodeExpand, "nodeExpand"},
    std::pair{SecretUse::kControllerModify, "controllerModify"},
};

// The members of `object` at the top that are in `names`.
Json PartsOf(const Json& object, std::initializer_list<const char*> names) {
  Json out = Json::object();
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) out[name] = *found;
  }
  return out;
}

Json EncodeClaim(const api::PersistentVolumeClaim& claim) {
  Json out = PartsOf(claim.json(), {"apiVersion", "kind", "spec"});
  out["metadata"] = PartsOf(base::json::Map(claim.json(), {"metadata"}),
                            {"name", "namespace", "uid", "creationTimestamp"});
  for (const auto name : {kSelectedNode, kStorageProvisioner, kBetaStorageProvisioner}) {
    if (!claim.has_annotation(name)) continue;
    base::json::Set(out, {"metadata", "annotations", name}, claim.annotation(name));
  }
  return out;
}

Json EncodeClass(const api::StorageClass& storage_class) {
  Json out = PartsOf(storage_class.json(), {"apiVersion", "kind", "provisioner", "parameters",
                                            "reclaimPolicy", "mountOptions", "volumeBindingMode"});
  out["metadata"]["name"] = storage_class.name();
  return out;
}

Json EncodePlan(const Plan& plan) {
  Json out = {{"request", base::EncodeBase64(plan.request.SerializeAsString())}};
  if (!plan.fs_type.empty()) out["fsType"] = plan.fs_type;
  if (plan.read_only) out["readOnly"] = true;
  for (const auto& [use, name] : kUseNames) {
    if (const api::SecretReference secret = plan.secret(use); !secret.empty()) {
      out["secrets"][name] = {{"namespace", secret.ns}, {"name", secret.name}};
    }
  }
  return out;
}

StatusOr<std::shared_ptr<const Plan>> DecodePlan(const Json& recorded) {
  Plan plan;
  const auto request = base::DecodeBase64(base::json::String(recorded, {"request"}));
  if (!request.has_value() || request->empty() || !plan.request.ParseFromString(*request) ||
      plan.request.name().empty()) {
    return Error(StatusCode::kInvalidArgument, "the request of a recorded plan is malformed");
  }
  plan.volume_name = plan.request.name();
  plan.fs_type = base::json::String(recorded, {"fsType"});
  plan.read_only = base::json::Bool(recorded, {"readOnly"});
  for (const auto& [use, name] : kUseNames) {
    const Json& secret = base::json::Map(recorded, {"secrets", name});
    if (secret.empty()) continue;
    plan.secrets.emplace(use, api::SecretReference{base::json::String(secret, {"name"}),
                                                   base::json::String(secret, {"namespace"})});
  }
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace

Json EncodeIntent(const Intent& intent) {
  Json out = {{"claim", EncodeClaim(*intent.claim)},
              {"class", EncodeClass(*intent.storage_class)},
              {"plan", EncodePlan(*intent.plan)},
              {"since", api::FormatTime(intent.since)}};
  if (intent.inherited) out["inherited"] = true;
  if (intent.given_up != nullptr) out["givenUp"] = EncodePlan(*intent.given_up);
  return out;
}

StatusOr<Intent> DecodeIntent(const Json& recorded) {
  Intent intent;
  api::PersistentVolumeClaim claim(base::json::Map(recorded, {"claim"}));
  api::StorageClass storage_class(base::json::Map(recorded, {"class"}));
  if (claim.uid().empty() || claim.name().empty() || claim.ns().empty() ||
      storage_class.name().empty()) {
    return Error(StatusCode::kInvalidArgument, "a recorded intent names no claim or no class");
  }
  ASSIGN_OR_RETURN(intent.plan, DecodePlan(base::json::Map(recorded, {"plan"})));
  if (const Json& given_up = base::json::Map(recorded, {"givenUp"}); !given_up.empty()) {
    ASSIGN_OR_RETURN(intent.given_up, DecodePlan(given_up));
  }
  ASSIGN_OR_RETURN(intent.since, api::ParseTime(base::json::String(recorded, {"since"})));
  intent.inherited = base::json::Bool(recorded, {"inherited"});
  intent.claim = std::make_shared<const api::PersistentVolumeClaim>(std::move(claim));
  intent.storage_class = std::make_shared<const api::StorageClass>(std::move(storage_class));
  return intent;
}

}  // namespace berth::controllers::provisioner
