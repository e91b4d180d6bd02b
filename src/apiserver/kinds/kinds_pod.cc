// Pod.

#include "api/kinds/runtime_mount.h"
#include "api/names.h"
#include "api/quantity.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/pod_spec.h"
#include "apiserver/kinds/spec_checks.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr int64_t kDefaultTolerationSeconds = 300;
constexpr int64_t kClusterCritical = 2'000'000'000;
constexpr int64_t kNodeCritical = 2'000'001'000;

base::Status RefusePod(const Json& pod, std::string_view why) {
  std::string name = String(pod, {"metadata", "name"});
  return ForbiddenError(api::kinds::kPod, name, why);
}

void DefaultPod(Json& object) { DefaultPodSpec(object["spec"], PodSpecOf::kPod); }

// ---- admission

// Adds default tolerations, so that the pods of a node that stops answering stay on it for five
// minutes.
void AddTolerations(Json& pod) {
  Json tolerations = Array(pod, {"spec", "tolerations"});
  for (const std::string key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool present = std::any_of(tolerations.begin(), tolerations.end(), [&](const Json& one) {
      const std::string effect = String(one, {"effect"});
      return (String(one, {"key"}) == key || String(one, {"key"}).empty()) &&
             (effect.empty() || effect == "NoExecute");
    });
    if (present) continue;
    tolerations.push_back({{"key", key},
                           {"operator", "Exists"},
                           {"effect", "NoExecute"},
                           {"tolerationSeconds", kDefaultTolerationSeconds}});
  }
  base::json::Set(pod, {"spec", "tolerations"}, std::move(tolerations));
}

// Sets the priority. Only Kubernetes' own two priority classes are known.
base::Status SetPriority(Json& pod) {
  const std::string name = String(pod, {"spec", "priorityClassName"});
  int64_t priority = 0;
  if (name == "system-cluster-critical") {
    priority = kClusterCritical;
  } else if (name == "system-node-critical") {
    priority = kNodeCritical;
  } else if (!name.empty()) {
    return RefusePod(pod, fmt::format("no PriorityClass with name {} was found", name));
  }
  const Json* asked = Find(pod, {"spec", "priority"});
  if (asked != nullptr && *asked != priority) {
    return RefusePod(pod,
                     fmt::format("the integer value of priority ({}) must not be provided in pod "
                                 "spec; priority admission controller computed {} from the given "
                                 "PriorityClass name",
                                 base::json::Dump(*asked), priority));
  }
  base::json::Set(pod, {"spec", "priority"}, priority);
  SetDefault(pod, {"spec", "preemptionPolicy"}, "PreemptLowerPriority");
  return base::OkStatus();
}

// The access modes of a claim, or of the template of one.
std::vector<std::string> ModesOf(const Json& claim) {
  std::vector<std::string> modes;
  for (const Json& mode : Array(claim, {"spec", "accessModes"})) {
    if (mode.is_string()) modes.push_back(mode);
  }
  return modes;
}

// Checks that the pod's claims have access modes that its runtime class allows. A claim that does
// not exist yet is checked by the node agent, which mounts it.
base::Status CheckClaimModes(const Json& pod, const Json& runtime_class, Lookup& lookup) {
  if (!api::FindAllowedModes(runtime_class)) return base::OkStatus();
  for (const Json& volume : Array(pod, {"spec", "volumes"})) {
    std::string name = String(volume, {"persistentVolumeClaim", "claimName"});
    base::StatusOr<Json> claim = Map(volume, {"ephemeral", "volumeClaimTemplate"});
    if (!name.empty()) {
      claim = lookup.Get(api::kinds::kPersistentVolumeClaim, String(pod, {"metadata", "namespace"}),
                         name);
      if (claim.status().code() == base::StatusCode::kNotFound) continue;
      RETURN_IF_ERROR(claim);
    } else {
      name = fmt::format("{}-{}", String(pod, {"metadata", "name"}), String(volume, {"name"}));
    }
    const std::string why = api::FindReasonAgainstModes(runtime_class, name, ModesOf(*claim));
    if (!why.empty()) {
      return RefusePod(pod, fmt::format("volume '{}': {}", String(volume, {"name"}), why));
    }
  }
  return base::OkStatus();
}

// Copies the scheduling rules and the overhead of the runtime class into the pod.
base::Status ApplyRuntimeClass(Json& pod, Lookup& lookup) {
  const std::string name = String(pod, {"spec", "runtimeClassName"});
  if (name.empty()) return base::OkStatus();
  const auto found = lookup.Get(api::kinds::kRuntimeClass, "", name);
  if (!found.ok()) {
    if (found.status().code() != base::StatusCode::kNotFound) return found.status();
    return RefusePod(pod, fmt::format("pod rejected: RuntimeClass \"{}\" not found", name));
  }
  RETURN_IF_ERROR(CheckClaimModes(pod, *found, lookup));
  if (const Json* overhead = Find(*found, {"overhead", "podFixed"})) {
    const Json* own = Find(pod, {"spec", "overhead"});
    if (own != nullptr && *own != *overhead) {
      return RefusePod(
          pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
    }
    base::json::Set(pod, {"spec", "overhead"}, *overhead);
  }
  for (const auto& [key, value] : Map(*found, {"scheduling", "nodeSelector"}).items()) {
    const Json* own = Find(pod, {"spec", "nodeSelector", key});
    if (own != nullptr && *own != value) {
      return RefusePod(pod,
                       fmt::format("conflict: runtimeClass.scheduling.nodeSelector[{}] = {}; "
                                   "pod.spec.nodeSelector[{}] = {}",
                                   key, value.get<std::string>(), key, own->get<std::string>()));
    }
    base::json::Set(pod, {"spec", "nodeSelector", key}, value);
  }
  Json tolerations = Array(pod, {"spec", "tolerations"});
  for (const Json& one : Array(*found, {"scheduling", "tolerations"})) {
    if (std::find(tolerations.begin(), tolerations.end(), one) == tolerations.end()) {
      tolerations.push_back(one);
    }
  }
  if (!tolerations.empty()) base::json::Set(pod, {"spec", "tolerations"}, std::move(tolerations));
  return base::OkStatus();
}

// The pod's service account must exist. "default" may be missing, because it is created shortly
// after each namespace.
base::Status CheckAccount(const Json& pod, Lookup& lookup) {
  const std::string name = String(pod, {"spec", "serviceAccountName"});
  if (name == "default") return base::OkStatus();
  const std::string ns = String(pod, {"metadata", "namespace"});
  const auto found = lookup.Get(api::kinds::kServiceAccount, ns, name);
  if (found.ok()) return base::OkStatus();
  if (found.status().code() != base::StatusCode::kNotFound) return found.status();
  return RefusePod(
      pod, fmt::format("error looking up service account {}/{}: serviceaccount \"{}\" not found",
                       ns, name, name));
}

base::Status AdmitPod(Json& object, Lookup& lookup) {
  SetDefault(object, {"spec", "serviceAccountName"}, "default");
  RETURN_IF_ERROR(CheckAccount(object, lookup));
  SetDefault(object, {"spec", "serviceAccount"}, String(object, {"spec", "serviceAccountName"}));
  SetDefault(object, {"spec", "enableServiceLinks"}, true);
  RETURN_IF_ERROR(SetPriority(object));
  RETURN_IF_ERROR(ApplyRuntimeClass(object, lookup));
  AddTolerations(object);
  base::json::Set(object, {"status", "qosClass"}, QosClassOf(Map(object, {"spec"})));
  if (!Array(object, {"spec", "schedulingGates"}).empty()) {
    object["status"]["conditions"] =
        Json::array({{{"type", "PodScheduled"},
                      {"status", "False"},
                      {"reason", "SchedulingGated"},
                      {"message", "Scheduling is blocked due to non-empty scheduling gates"},
                      {"lastProbeTime", nullptr},
                      {"lastTransitionTime", String(object, {"metadata", "creationTimestamp"})}}});
  }
  return base::OkStatus();
}

// Adds the fields that admission added on creation, because an update does not have to repeat them.
base::Status AdmitPodUpdate(Json& object, const Json& old, Lookup&) {
  for (const char* field : {"priority", "preemptionPolicy"}) {
    if (const Json* was = Find(old, {"spec", field})) SetDefault(object, {"spec", field}, *was);
  }
  AddTolerations(object);
  return base::OkStatus();
}

// Keeps the QoS class, because a writer of the status may leave it out.
void KeepQosClass(Json& object, const Json& old, base::WallTime) {
  if (const std::string was = String(old, {"status", "qosClass"}); !was.empty()) {
    SetDefault(object, {"status", "qosClass"}, was);
  }
}

// ---- validation

void ValidatePod(const Json& json, FieldErrors& errors) {
  ValidatePodSpec(Checked(json, errors)["spec"], PodSpecOf::kPod);
}

void ValidateNewPod(const Json& json, FieldErrors& errors) {
  const Checked spec = Checked(json, errors)["spec"];
  if (spec["ephemeralContainers"].given()) {
    spec["ephemeralContainers"].Forbidden("cannot be set on create");
  }
  if (spec["nodeName"].given() && spec["schedulingGates"].given()) {
    spec["nodeName"].Forbidden("cannot be set until all schedulingGates have been cleared");
  }
}

// Checks that a deadline is only added or made earlier.
void CheckDeadline(const Checked& deadline) {
  if (!deadline.changed() || deadline.old().is_null()) return;
  if (!deadline.present()) {
    deadline.Invalid("must not update from a positive integer to nil value");
  } else if (deadline.old().is_number_integer() &&
             deadline.number() > deadline.old().get<int64_t>()) {
    deadline.Invalid("must be less than or equal to previous value");
  }
}

Json WithoutSeconds(Json toleration) {
  if (toleration.is_object()) toleration.erase("tolerationSeconds");
  return toleration;
}

void CheckAddedTolerations(const Checked& tolerations) {
  if (!tolerations.old().is_array()) return;
  for (const Json& before : tolerations.old()) {
    const bool kept =
        std::any_of(tolerations.json().begin(), tolerations.json().end(),
                    [&](const Json& one) { return WithoutSeconds(one) == WithoutSeconds(before); });
    if (kept) continue;
    return tolerations.Forbidden(
        "existing toleration can not be modified except its tolerationSeconds");
  }
}

void CheckRemovedGates(const Checked& gates) {
  const Json& before = gates.old();
  for (const Checked& gate : gates.Items()) {
    const bool known = std::any_of(before.begin(), before.end(),
                                   [&](const Json& one) { return one == gate.json(); });
    if (known) continue;
    gate["name"].Forbidden(fmt::format(
        "only deletion is allowed, but found new scheduling gate '{}'", gate["name"].text()));
  }
}

// The spec without the fields that may change.
Json FixedPart(const Json& spec, bool gated) {
  Json fixed = spec;
  for (const char* list : {"containers", "initContainers"}) {
    Json* containers = FindMutable(fixed, {list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (Json& container : *containers) container.erase("image");
  }
  for (const char* field : {"activeDeadlineSeconds", "tolerations", "schedulingGates"}) {
    fixed.erase(field);
  }
  if (gated) {
    fixed.erase("nodeSelector");
    base::json::Remove(fixed, {"affinity", "nodeAffinity"});
    if (Map(fixed, {"affinity"}).empty()) fixed.erase("affinity");
  }
  return fixed;
}

// Checks that the new node selection of a gated pod only adds conditions.
void CheckNarrowed(const Checked& spec) {
  const Checked selector = spec["nodeSelector"];
  for (const auto& [key, value] : Map(spec.old(), {"nodeSelector"}).items()) {
    if (selector[key].json() == value) continue;
    return selector.Invalid(
        "only additions to spec.nodeSelector are allowed (no mutations or "
        "deletions)");
  }
  const Checked required =
      spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  if (!required.old().is_null() &&
      required["nodeSelectorTerms"].json().size() != required["nodeSelectorTerms"].old().size()) {
    required["nodeSelectorTerms"].Invalid(
        "no additions/deletions to non-empty "
        "NodeSelectorTerms list are allowed");
  }
}

// Only few fields of a pod's spec may change, because the node agent acts on the spec only once.
void ValidatePodUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked spec = Checked(json, old, errors)["spec"];
  for (const std::string_view list : {"containers", "initContainers"}) {
    const size_t before = spec[list].old().is_array() ? spec[list].old().size() : 0;
    if (spec[list].Items().size() == before) continue;
    return spec[list].Forbidden("pod updates may not add or remove containers");
  }
  CheckDeadline(spec["activeDeadlineSeconds"]);
  CheckAddedTolerations(spec["tolerations"]);
  CheckRemovedGates(spec["schedulingGates"]);
  const bool gated = !Array(old, {"spec", "schedulingGates"}).empty();
  if (gated) CheckNarrowed(spec);
  if (FixedPart(Map(json, {"spec"}), gated) == FixedPart(Map(old, {"spec"}), gated)) return;
  spec.Forbidden(
      "pod updates may not change fields other than `spec.containers[*].image`,"
      "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
      "`spec.tolerations` (only additions to existing tolerations),"
      "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
      "negative)");
}

// Makes status.podIP the first of status.podIPs. If they differ, podIP wins, because older node
// agents write only that one.
void AlignAddresses(Json& pod) {
  const std::string ip = String(pod, {"status", "podIP"});
  const Json& ips = Array(pod, {"status", "podIPs"});
  const std::string first = ips.empty() ? "" : String(ips.front(), {"ip"});
  if (ip.empty() && !first.empty()) base::json::Set(pod, {"status", "podIP"}, first);
  if (!ip.empty() && ip != first) {
    Json only = Json::array();
    only.push_back({{"ip", ip}});
    base::json::Set(pod, {"status", "podIPs"}, std::move(only));
  }
}

// Ephemeral containers can only be added, because the pod must list all containers that run or ran.
void ValidateEphemeralUpdate(const Json& json, const Json& old, FieldErrors& errors) {
  const Checked containers = Checked(json, old, errors)["spec"]["ephemeralContainers"];
  if (Find(Map(json, {"metadata", "annotations"}), {"kubernetes.io/config.mirror"}) != nullptr) {
    return containers.Forbidden("static pods do not support ephemeral containers");
  }
  for (const Json& before : Array(old, {"spec", "ephemeralContainers"})) {
    const std::string name = String(before, {"name"});
    const auto found =
        std::find_if(containers.json().begin(), containers.json().end(),
                     [&](const Json& container) { return String(container, {"name"}) == name; });
    if (found == containers.json().end()) {
      containers.Forbidden(
          fmt::format("existing ephemeral containers \"{}\" may not be removed", name));
    } else if (*found != before) {
      containers.Forbidden(
          fmt::format("existing ephemeral containers \"{}\" may not be changed", name));
    }
  }
}

}  // namespace

void AddPodRules(std::vector<KindRules>& rules) {
  KindRules pod(api::kinds::kPod);
  pod.counts_generation = true;
  pod.delete_returns_object = true;
  pod.graceful = true;
  pod.status_keeps_metadata = true;
  pod.initial_status = {{"phase", "Pending"}};
  pod.defaults = DefaultPod;
  pod.admit_create = AdmitPod;
  pod.admit_update = AdmitPodUpdate;
  pod.admit_status = KeepQosClass;
  pod.shape = AlignAddresses;
  pod.validate = ValidatePod;
  pod.validate_create = ValidateNewPod;
  pod.validate_update = ValidatePodUpdate;
  pod.validate_ephemeral = ValidateEphemeralUpdate;
  rules.push_back(pod);
}

}  // namespace berth::apiserver
