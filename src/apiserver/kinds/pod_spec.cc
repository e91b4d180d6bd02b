#include "apiserver/kinds/pod_spec.h"

#include "api/names.h"
#include "api/quantity.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/spec_checks.h"
#include "apiserver/kinds/volume_specs.h"

namespace berth::apiserver {

using base::Json;
using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr int64_t kMaxInt32 = INT32_MAX;
constexpr size_t kMaxNameservers = 3;
constexpr size_t kMaxSearchPaths = 32;

void DefaultPodVolume(Json& volume) {
  if (!volume.is_object()) return;
  const bool sourced = std::any_of(volume.items().begin(), volume.items().end(), [](auto& member) {
    return IsSource(member.key(), SourcePlace::kPod);
  });
  if (!sourced) volume["emptyDir"] = Json::object();
  DefaultSource(volume);
}

// On the host's network, a container's port is also the host port.
void DefaultHostPorts(Json& container) {
  Json* ports = FindMutable(container, {"ports"});
  if (ports == nullptr || !ports->is_array()) return;
  for (Json& port : *ports) {
    if (const Json* number = Find(port, {"containerPort"})) {
      SetDefault(port, {"hostPort"}, Json(*number));
    }
  }
}

// A limit is also the default of the request.
void DefaultRequests(Json& container) {
  for (const auto& [name, limit] : Map(container, {"resources", "limits"}).items()) {
    SetDefault(container, {"resources", "requests", name}, Json(limit));
  }
}

void CheckVolumes(const Checked& volumes) {
  std::set<std::string> names;
  for (const Checked& volume : volumes.Items()) {
    if (volume["name"].Needed()) {
      volume["name"].Is(api::CheckDns1123Label);
      volume["name"].Unique(names);
    }
    ValidateSource(volume, SourcePlace::kPod);
  }
}

void CheckSeccomp(const Checked& profile) {
  if (!profile.present()) return;
  const Checked type = profile["type"];
  const Checked path = profile["localhostProfile"];
  if (type.Needed("type is required when seccompProfile is set")) {
    type.OneOfIfGiven({"Localhost", "RuntimeDefault", "Unconfined"});
  }
  if (type.text() == "Localhost") {
    if (path.Needed("must be set when seccomp type is Localhost")) path.RelativePath();
  } else if (path.present()) {
    path.Invalid("can only be set when seccomp type is Localhost");
  }
}

void CheckSecurity(const Checked& context, const Checked& spec) {
  for (const std::string_view id : {"fsGroup", "runAsUser", "runAsGroup"}) {
    context[id].Between(0, kMaxInt32);
  }
  for (const Checked& group : context["supplementalGroups"].Items()) group.Between(0, kMaxInt32);
  context["fsGroupChangePolicy"].OneOfIfGiven({"Always", "OnRootMismatch"});
  context["supplementalGroupsPolicy"].OneOfIfGiven({"Merge", "Strict"});
  context["seLinuxChangePolicy"].OneOfIfGiven({"MountOption", "Recursive"});
  CheckSeccomp(context["seccompProfile"]);
  std::set<std::string> sysctls;
  for (const Checked& sysctl : context["sysctls"].Items()) {
    if (sysctl["name"].Needed()) sysctl["name"].Unique(sysctls);
  }
  const Checked shared = spec["shareProcessNamespace"];
  if (shared.flag() && spec["hostPID"].flag()) {
    shared.Named(context.field() + ".shareProcessNamespace")
        .Invalid("ShareProcessNamespace and HostPID cannot both be enabled");
  }
}

// A pod with its own user namespace cannot share other namespaces with the host.
void CheckHostUsers(const Checked& spec) {
  if (!spec["hostUsers"].present() || spec["hostUsers"].flag()) return;
  for (const auto& [member, name] :
       {std::pair("hostNetwork", "hostNetwork"), std::pair("hostPID", "HostPID"),
        std::pair("hostIPC", "HostIPC")}) {
    if (spec[member].flag()) spec[name].Forbidden("when `hostUsers` is false");
  }
}

void CheckPodAffinityTerm(const Checked& term) {
  CheckLabelSelector(term["labelSelector"]);
  CheckLabelSelector(term["namespaceSelector"]);
  if (term["topologyKey"].Needed("can not be empty")) {
    term["topologyKey"].Is(api::CheckQualifiedName);
  }
}

void CheckAffinity(const Checked& affinity) {
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";
  constexpr std::string_view kWeight = "must be in the range 1-100";
  const auto check_weight = [&](const Checked& term) {
    const int64_t weight = term["weight"].number();
    if (weight < 1 || weight > 100) term["weight"].Invalid(weight, kWeight);
  };
  const Checked node = affinity["nodeAffinity"];
  CheckNodeSelector(node[kRequired]);
  for (const Checked& term : node[kPreferred].Items()) {
    check_weight(term);
    CheckNodeSelectorTerm(term["preference"]);
  }
  for (const std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    for (const Checked& term : affinity[kind][kRequired].Items()) CheckPodAffinityTerm(term);
    for (const Checked& term : affinity[kind][kPreferred].Items()) {
      check_weight(term);
      CheckPodAffinityTerm(term["podAffinityTerm"]);
    }
  }
}

void CheckSpread(const Checked& constraints) {
  for (const Checked& one : constraints.Items()) {
    if (one["maxSkew"].number() <= 0) {
      one["maxSkew"].Invalid(one["maxSkew"].number(), "must be greater than zero");
    }
    if (one["topologyKey"].Needed("can not be empty")) {
      one["topologyKey"].Is(api::CheckQualifiedName);
    }
    one["whenUnsatisfiable"].OneOf({"DoNotSchedule", "ScheduleAnyway"});
    CheckLabelSelector(one["labelSelector"]);
  }
}

void CheckDns(const Checked& spec) {
  const Checked policy = spec["dnsPolicy"];
  const Checked config = spec["dnsConfig"];
  policy.OneOf({"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"});
  const Checked servers = config["nameservers"];
  if (policy.text() == "None") {
    if (!config.present()) {
      return config.Required("must provide `dnsConfig` when `dnsPolicy` is None");
    }
    if (!servers.given()) {
      return servers.Required("must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
  }
  if (servers.json().size() > kMaxNameservers) {
    servers.Invalid(fmt::format("must not have more than {} nameservers", kMaxNameservers));
  }
  if (config["searches"].json().size() > kMaxSearchPaths) {
    config["searches"].Invalid(
        fmt::format("must not have more than {} search paths", kMaxSearchPaths));
  }
  for (const Checked& option : config["options"].Items()) {
    if (!option["name"].given()) option.Required("must not be empty");
  }
}

// Checks scheduling gates, which keep a pod from the scheduler. Each name may appear once.
void CheckGates(const Checked& gates) {
  std::set<std::string> seen;
  for (const Checked& gate : gates.Items()) {
    const Checked name = gate["name"].Named(gate.field());
    name.Is(api::CheckQualifiedName);
    name.Unique(seen);
  }
}

// Whether resources.LIST of the container has an amount of `resource` above zero.
bool HasAmount(const Json& container, const char* list, const char* resource) {
  const Json* amount = Find(container, {"resources", list, resource});
  if (amount == nullptr) return false;
  const auto quantity = api::Quantity::Parse(amount->is_string() ? amount->get<std::string>()
                                                                 : base::json::Dump(*amount));
  return quantity.ok() && *quantity > api::Quantity();
}

}  // namespace

void DefaultPodSpec(Json& spec, PodSpecOf of) {
  SetDefault(spec, {"restartPolicy"}, "Always");
  SetDefault(spec, {"dnsPolicy"}, "ClusterFirst");
  SetDefault(spec, {"terminationGracePeriodSeconds"}, 30);
  SetDefault(spec, {"schedulerName"}, "default-scheduler");
  SetDefault(spec, {"securityContext"}, Json::object());
  for (const char* list : {"containers", "initContainers", "ephemeralContainers"}) {
    Json* containers = FindMutable(spec, {list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (Json& container : *containers) {
      if (!container.is_object()) continue;
      DefaultContainer(container);
      if (of != PodSpecOf::kPod) continue;
      DefaultRequests(container);
      if (Bool(spec, {"hostNetwork"})) DefaultHostPorts(container);
    }
  }
  if (Json* volumes = FindMutable(spec, {"volumes"}); volumes != nullptr && volumes->is_array()) {
    for (Json& volume : *volumes) DefaultPodVolume(volume);
  }
  // The field has two names, of which serviceAccount is deprecated. Both get the same value.
  const std::string account =
      String(spec, {"serviceAccountName"}, String(spec, {"serviceAccount"}));
  if (!account.empty()) spec["serviceAccountName"] = spec["serviceAccount"] = account;
}

void ValidatePodSpec(const Checked& spec, PodSpecOf of) {
  spec["terminationGracePeriodSeconds"].AtLeast(0);
  CheckVolumes(spec["volumes"]);
  ValidateContainers(spec, of);
  spec["restartPolicy"].OneOf({"Always", "OnFailure", "Never"});
  CheckDns(spec);
  CheckLabels(spec["nodeSelector"]);
  CheckSecurity(spec["securityContext"], spec);
  CheckAffinity(spec["affinity"]);
  for (const Checked& gate : spec["readinessGates"].Items()) {
    gate["conditionType"].Is(api::CheckQualifiedName);
  }
  CheckGates(spec["schedulingGates"]);
  CheckSpread(spec["topologySpreadConstraints"]);
  CheckHostUsers(spec);
  for (const std::string_view name :
       {"serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"}) {
    spec[name].IsIfGiven(api::CheckDns1123Subdomain);
  }
  spec["hostname"].IsIfGiven(api::CheckDns1123Label);
  spec["subdomain"].IsIfGiven(api::CheckDns1123Label);
  if (spec["activeDeadlineSeconds"].present()) spec["activeDeadlineSeconds"].Between(1, kMaxInt32);
  CheckTolerations(spec["tolerations"]);
  spec["preemptionPolicy"].OneOfIfGiven({"PreemptLowerPriority", "Never"});
}

void ValidatePodTemplate(const Checked& pod_template) {
  CheckLabels(pod_template["metadata"]["labels"].Named(pod_template.field() + ".labels"));
  CheckAnnotations(
      pod_template["metadata"]["annotations"].Named(pod_template.field() + ".annotations"));
  ValidatePodSpec(pod_template["spec"], PodSpecOf::kTemplate);
  const Checked ephemeral = pod_template["spec"]["ephemeralContainers"];
  if (ephemeral.given()) {
    ephemeral.Named(pod_template.field() + ".spec.ephemeralContainers")
        .Forbidden("ephemeral containers not allowed in pod template");
  }
}

std::string QosClassOf(const Json& spec) {
  bool any = false;
  bool all = true;
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : Array(spec, {list})) {
      for (const char* resource : {"cpu", "memory"}) {
        const bool limited = HasAmount(container, "limits", resource);
        any |= limited || HasAmount(container, "requests", resource);
        all &= limited && Map(container, {"resources", "limits"})[resource] ==
                              Map(container, {"resources", "requests"}).value(resource, Json());
      }
    }
  }
  return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

}  // namespace berth::apiserver
