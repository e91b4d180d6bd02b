// Node, Lease, RuntimeClass.

#include <algorithm>

#include "api/kinds/runtime_mount.h"
#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "apiserver/kinds/volume_specs.h"

namespace berth::apiserver {

namespace {

// ---- Node

void ValidateNode(const Json& json, FieldErrors& errors) {
  const Checked node(json, errors);
  std::set<std::string> taints;
  for (const Checked& taint : node["spec"]["taints"].Items()) {
    taint["key"].Is(api::CheckQualifiedName);
    taint["value"].Is(api::CheckLabelValue);
    taint["effect"].OneOf({"NoSchedule", "PreferNoSchedule", "NoExecute"});
    if (!taints.insert(taint["effect"].text() + " " + taint["key"].text()).second) {
      taint.Duplicate();
    }
  }
  for (const std::string_view amounts : {"capacity", "allocatable"}) {
    for (const auto& [name, amount] : node["status"][amounts].Entries()) {
      amount.NonNegativeQuantity();
    }
  }
}

void CheckAddresses(const Checked& addresses) {
  std::set<std::string> seen;
  for (const Checked& address : addresses.Items()) {
    if (!seen.insert(base::json::Dump(address.json())).second) address.Duplicate();
  }
}

void ValidateNodeUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked spec = Checked(json, old, errors)["spec"];
  const Json& before = spec.old();
  for (const std::string_view once : {"podCIDR", "providerID"}) {
    const Checked value = spec[once];
    if (value.changed() && !value.old().is_null() && value.old() != "") {
      value.Forbidden(
          fmt::format("node updates may not change {} except from \"\" to valid", once));
    }
  }
  Json rest = spec.json().is_object() ? spec.json() : Json::object();
  Json rest_before = before.is_object() ? before : Json::object();
  for (const char* free :
       {"taints", "unschedulable", "podCIDR", "podCIDRs", "providerID", "configSource"}) {
    rest.erase(free);
    rest_before.erase(free);
  }
  if (rest != rest_before) {
    Checked(json, old, errors)
        .Named("")
        .Forbidden(
            "node updates may only change labels, taints, or capacity (or configSource, if the "
            "DynamicKubeletConfig feature gate is enabled)");
  }
}

void ValidateNodeStatus(const Json& json, const Json& old, FieldErrors& errors) {
  ValidateNode(json, errors);
  CheckAddresses(Checked(json, old, errors)["status"]["addresses"]);
}

// ---- Lease

void ValidateLease(const Json& json, FieldErrors& errors) {
  const Checked spec = Checked(json, errors)["spec"];
  if (spec["leaseDurationSeconds"].number(1) <= 0) {
    spec["leaseDurationSeconds"].Invalid("must be greater than 0");
  }
  spec["leaseTransitions"].AtLeast(0);
  if (const Checked strategy = spec["strategy"]; strategy.present()) {
    if (strategy.text().find('/') == std::string::npos) {
      if (strategy.text() != "OldestEmulationVersion") {
        strategy.NotSupported({"OldestEmulationVersion"});
      }
    } else {
      strategy.Is(api::CheckQualifiedName);
    }
  }
  if (spec["preferredHolder"].given() && !spec["strategy"].given()) {
    spec["preferredHolder"].Forbidden("may only be specified if `strategy` is defined");
  }
}

// ---- RuntimeClass

// Checks the setting of access modes, because a misspelt mode would refuse pods whose claims the
// administrator wants to allow.
void CheckAllowedModes(const Json& runtime_class, FieldErrors& errors) {
  const auto allowed = api::FindAllowedModes(runtime_class);
  if (!allowed) return;
  const Checked setting =
      Checked(runtime_class, errors)["metadata"]["annotations"].Key(api::kAccessModesAnnotation);
  if (allowed->empty()) setting.Invalid("must name at least one access mode");
  for (const std::string& mode : *allowed) {
    if (std::ranges::find(kAccessModes, mode) != kAccessModes.end()) continue;
    setting.Invalid(fmt::format("'{}' is no access mode; supported values: {}", mode,
                                fmt::join(kAccessModes, ", ")));
  }
}

void ValidateRuntimeClass(const Json& json, FieldErrors& errors) {
  const Checked object(json, errors);
  object["handler"].Is(api::CheckDns1123Label);
  CheckResourceAmounts(object["overhead"]["podFixed"].Named("overhead.limits"));
  CheckLabels(object["scheduling"]["nodeSelector"]);
  CheckTolerations(object["scheduling"]["tolerations"]);
  CheckAllowedModes(json, errors);
  // The socket of the handler's file system service, for runtime-assisted mounting (KEP-2857).
  const Checked socket = object["fsMgmtSocket"];
  if (!socket.given()) return;
  if (!socket.text().starts_with('/')) socket.Invalid("must be an absolute path");
  socket.NoBacksteps();
}

void ValidateRuntimeClassUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  Checked(json, old, errors)["handler"].Immutable();
}

}  // namespace

void AddNodeRules(std::vector<KindRules>& rules) {
  KindRules node(api::kinds::kNode);
  node.status_keeps_metadata = true;
  node.created_with_status = true;  // a node agent registers the node with its status
  node.validate = ValidateNode;
  node.validate_update = ValidateNodeUpdate;
  node.validate_status = ValidateNodeStatus;
  rules.push_back(node);

  KindRules lease(api::kinds::kLease);
  lease.create_on_update = true;
  lease.update_needs_version = true;
  lease.validate = ValidateLease;
  rules.push_back(lease);

  KindRules runtime(api::kinds::kRuntimeClass);
  runtime.create_on_update = true;
  runtime.update_needs_version = true;
  runtime.validate = ValidateRuntimeClass;
  runtime.validate_update = ValidateRuntimeClassUpdate;
  rules.push_back(runtime);
}

}  // namespace berth::apiserver
