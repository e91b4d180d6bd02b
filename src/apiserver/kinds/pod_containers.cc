// The containers of a PodSpec.

#include "api/names.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/pod_spec.h"
#include "apiserver/kinds/spec_checks.h"

namespace berth::apiserver {

using base::Json;
using base::json::Find;
using base::json::String;

namespace {

constexpr int64_t kMaxPort = 65535;
constexpr size_t kMaxPortName = 15;

// An image with ":latest" or without a tag is pulled each time, because it may be another image
// the next time.
std::string_view PullPolicyFor(std::string_view image) {
  if (image.find('@') != std::string_view::npos) return "IfNotPresent";
  const size_t slash = image.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? image : image.substr(slash + 1);
  const size_t colon = last.find(':');
  const bool moves = colon == std::string_view::npos || last.substr(colon + 1) == "latest";
  return moves ? "Always" : "IfNotPresent";
}

void DefaultHandler(Json& handler) {
  if (FindMutable(handler, {"httpGet"}) != nullptr) {
    SetDefault(handler, {"httpGet", "path"}, "/");
    SetDefault(handler, {"httpGet", "scheme"}, "HTTP");
  }
  if (FindMutable(handler, {"grpc"}) != nullptr) SetDefault(handler, {"grpc", "service"}, "");
}

void DefaultProbe(Json& probe) {
  DefaultHandler(probe);
  SetDefault(probe, {"timeoutSeconds"}, 1);
  SetDefault(probe, {"periodSeconds"}, 10);
  SetDefault(probe, {"successThreshold"}, 1);
  SetDefault(probe, {"failureThreshold"}, 3);
}

// ---- validation

// A port name has at most 15 characters of [a-z0-9-] and at least one letter. It has no hyphen at
// its ends, and no two hyphens in a row.
base::Status CheckPortName(std::string_view name) {
  const auto fail = [](std::string_view why) {
    return base::Status(base::StatusCode::kInvalidArgument, base::ToAbsl(why));
  };
  if (name.size() > kMaxPortName) return fail("must be no more than 15 characters");
  bool letter = false;
  for (const char c : name) {
    const bool lower = c >= 'a' && c <= 'z';
    letter |= lower;
    if (!lower && (c < '0' || c > '9') && c != '-') {
      return fail("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
  }
  if (!letter) return fail("must contain at least one letter (a-z)");
  if (name.find("--") != std::string_view::npos) {
    return fail("must not contain consecutive hyphens");
  }
  if (name.front() == '-' || name.back() == '-') {
    return fail("must not begin or end with a hyphen");
  }
  return base::OkStatus();
}

void CheckPorts(const Checked& ports) {
  std::set<std::string> names;
  for (const Checked& port : ports.Items()) {
    if (port["name"].given() && port["name"].Is(CheckPortName)) port["name"].Unique(names);
    if (!port["containerPort"].present() || port["containerPort"].number() == 0) {
      port["containerPort"].Required();
    } else {
      port["containerPort"].Between(1, kMaxPort);
    }
    if (port["hostPort"].number() != 0) port["hostPort"].Between(1, kMaxPort);
    port["protocol"].OneOf({"SCTP", "TCP", "UDP"});
  }
}

base::Status CheckEnvName(std::string_view name) {
  for (const char c : name) {
    if (c < 0x20 || c > 0x7e || c == '=') {
      return base::Error(base::StatusCode::kInvalidArgument,
                         "a valid environment variable name must consist only of printable ASCII "
                         "characters other than '='");
    }
  }
  return base::OkStatus();
}

void CheckKeySelector(const Checked& selector) {
  if (!selector.present()) return;
  selector["name"].Is(api::CheckDns1123Subdomain);
  if (selector["key"].Needed()) selector["key"].Is(api::CheckConfigKey);
}

void CheckFieldRef(const Checked& field) {
  if (!field.present() || !field["fieldPath"].Needed()) return;
  const std::string path = field["fieldPath"].text();
  if (path.starts_with("metadata.labels['") || path.starts_with("metadata.annotations['")) return;
  field["fieldPath"].OneOfIfGiven({"metadata.name", "metadata.namespace", "metadata.uid",
                                   "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
                                   "status.hostIPs", "status.podIP", "status.podIPs"});
}

void CheckEnv(const Checked& env) {
  for (const Checked& variable : env.Items()) {
    if (variable["name"].Needed()) variable["name"].Is(CheckEnvName);
    const Checked from = variable["valueFrom"];
    if (!from.present()) continue;
    size_t sources = 0;
    for (const std::string_view source :
         {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"}) {
      if (from[source].present()) ++sources;
    }
    CheckFieldRef(from["fieldRef"]);
    if (from["resourceFieldRef"].present()) from["resourceFieldRef"]["resource"].Needed();
    CheckKeySelector(from["configMapKeyRef"]);
    CheckKeySelector(from["secretKeyRef"]);
    if (sources == 0) {
      from.Invalid("",
                   "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
                   "`secretKeyRef`");
    } else if (variable["value"].given()) {
      from.Invalid("", "may not be specified when `value` is not empty");
    } else if (sources > 1) {
      from.Invalid("", "may not have more than one field specified at a time");
    }
  }
}

void CheckEnvFrom(const Checked& env) {
  for (const Checked& one : env.Items()) {
    one["prefix"].IsIfGiven(CheckEnvName);
    size_t sources = 0;
    for (const std::string_view source : {"configMapRef", "secretRef"}) {
      if (!one[source].present()) continue;
      ++sources;
      if (one[source]["name"].Needed()) one[source]["name"].Is(api::CheckDns1123Subdomain);
    }
    if (sources == 0) {
      env.Invalid("", "must specify one of: `configMapRef` or `secretRef`");
    } else if (sources > 1) {
      env.Invalid("", "may not have more than one field specified at a time");
    }
  }
}

// The pod's volumes by name.
using Volumes = std::map<std::string, const Json*>;

std::set<std::string> TextsOf(const Checked& list, std::string_view member) {
  std::set<std::string> texts;
  for (const Checked& item : list.Items()) texts.insert(item[member].text());
  return texts;
}

void CheckPropagation(const Checked& mount, const Checked& container) {
  const Checked mode = mount["mountPropagation"];
  mode.OneOfIfGiven({"Bidirectional", "HostToContainer", "None"});
  if (mode.text() == "Bidirectional" && !container["securityContext"]["privileged"].flag()) {
    mode.Forbidden("Bidirectional mount propagation is available only to privileged containers");
  }
  const Checked recursive = mount["recursiveReadOnly"];
  recursive.OneOfIfGiven({"Disabled", "Enabled", "IfPossible"});
  if (!recursive.given() || recursive.text() == "Disabled") return;
  if (!mount["readOnly"].flag()) recursive.Forbidden("may only be specified when readOnly is true");
  if (mode.given() && mode.text() != "None") {
    recursive.Forbidden("may only be specified when mountPropagation is None or not specified");
  }
}

void CheckMounts(const Checked& container, const Volumes& volumes) {
  const auto device_names = TextsOf(container["volumeDevices"], "name");
  const auto device_paths = TextsOf(container["volumeDevices"], "devicePath");
  std::set<std::string> paths;
  for (const Checked& mount : container["volumeMounts"].Items()) {
    const Checked name = mount["name"];
    const Checked path = mount["mountPath"];
    name.Needed();
    if (!volumes.contains(name.text())) name.NotFound();
    path.Needed();
    if (!paths.insert(path.text()).second) path.Invalid("must be unique");
    if (device_names.contains(name.text())) name.Invalid("must not already exist in volumeDevices");
    if (device_paths.contains(path.text())) {
      path.Invalid("must not already exist as a path in volumeDevices");
    }
    // Kubernetes names these without the mount's index.
    for (const std::string_view member : {"subPath", "subPathExpr"}) {
      const Checked named = container["volumeMounts"][member];
      mount[member].Named(named.field()).RelativePath();
    }
    if (mount["subPath"].given() && mount["subPathExpr"].given()) {
      mount["subPathExpr"].Invalid("subPathExpr and subPath are mutually exclusive");
    }
    CheckPropagation(mount, container);
  }
}

void CheckDevices(const Checked& container, const Volumes& volumes) {
  std::set<std::string> names;
  std::set<std::string> paths;
  for (const Checked& device : container["volumeDevices"].Items()) {
    const Checked name = device["name"];
    const Checked path = device["devicePath"];
    name.Needed();
    if (!names.insert(name.text()).second) name.Invalid("must be unique");
    if (const auto it = volumes.find(name.text()); it == volumes.end()) {
      name.NotFound();
    } else if (!it->second->contains("persistentVolumeClaim") &&
               !it->second->contains("ephemeral")) {
      name.Invalid(
          "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
    }
    path.Needed();
    if (!paths.insert(path.text()).second) path.Invalid("must be unique");
    path.NoBacksteps();
  }
}

void CheckPort(const Checked& port) {
  if (port.json().is_string()) {
    port.Is(CheckPortName);
  } else if (port.number() < 1 || port.number() > kMaxPort) {
    port.Invalid(port.number(), fmt::format("must be between 1 and {}, inclusive", kMaxPort));
  }
}

void CheckHandler(const Checked& handler, std::initializer_list<std::string_view> kinds) {
  bool found = false;
  for (const std::string_view kind : kinds) {
    const Checked action = handler[kind];
    if (!action.present()) continue;
    if (found) {
      action.Forbidden("may not specify more than 1 handler type");
      continue;
    }
    found = true;
    if (kind == "exec") action["command"].Needed();
    if (kind == "httpGet") {
      action["path"].Needed();
      action["scheme"].OneOf({"HTTP", "HTTPS"});
    }
    if (kind == "httpGet" || kind == "tcpSocket" || kind == "grpc") CheckPort(action["port"]);
  }
  if (!found) handler.Required("must specify a handler type");
}

void CheckProbe(const Checked& probe, bool of_readiness) {
  if (!probe.present()) return;
  CheckHandler(probe, {"exec", "httpGet", "tcpSocket", "grpc"});
  for (const std::string_view seconds : {"initialDelaySeconds", "timeoutSeconds", "periodSeconds",
                                         "successThreshold", "failureThreshold"}) {
    probe[seconds].AtLeast(0);
  }
  const Checked grace = probe["terminationGracePeriodSeconds"];
  if (of_readiness) {
    if (grace.present()) grace.Invalid("must not be set for readinessProbes");
    return;
  }
  if (grace.number(1) <= 0) grace.Invalid("must be greater than 0");
  if (probe["successThreshold"].number(1) != 1) probe["successThreshold"].Invalid("must be 1");
}

void CheckLifecycle(const Checked& container) {
  for (const std::string_view hook : {"postStart", "preStop"}) {
    const Checked handler = container["lifecycle"][hook];
    if (handler.present()) CheckHandler(handler, {"exec", "httpGet", "tcpSocket", "sleep"});
  }
  CheckProbe(container["livenessProbe"], false);
  CheckProbe(container["readinessProbe"], true);
  CheckProbe(container["startupProbe"], false);
}

void CheckSecurity(const Checked& context) {
  for (const std::string_view id : {"runAsUser", "runAsGroup"}) {
    context[id].Between(0, INT32_MAX);
  }
  context["procMount"].OneOfIfGiven({"Default", "Unmasked"});
  const Checked escalation = context["allowPrivilegeEscalation"];
  if (escalation.present() && !escalation.flag()) {
    if (context["privileged"].flag()) {
      context.Invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    for (const Checked& capability : context["capabilities"]["add"].Items()) {
      if (capability.text() == "CAP_SYS_ADMIN") {
        context.Invalid(
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
            "CAP_SYS_ADMIN");
      }
    }
  }
}

void CheckContainer(const Checked& container, const Volumes& volumes, PodSpecOf of) {
  if (container["name"].Needed()) container["name"].Is(api::CheckDns1123Label);
  const Checked image = container["image"];
  const std::string name = image.text();
  if (image.Needed() && of == PodSpecOf::kPod &&
      (std::isspace(static_cast<unsigned char>(name.front())) != 0 ||
       std::isspace(static_cast<unsigned char>(name.back())) != 0)) {
    image.Invalid("must not have leading or trailing whitespace");
  }
  container["terminationMessagePolicy"].OneOf({"File", "FallbackToLogsOnError"});
  CheckPorts(container["ports"]);
  CheckEnv(container["env"]);
  CheckEnvFrom(container["envFrom"]);
  CheckMounts(container, volumes);
  CheckDevices(container, volumes);
  container["imagePullPolicy"].OneOf({"Always", "IfNotPresent", "Never"});
  CheckResources(container["resources"]);
  CheckSecurity(container["securityContext"]);
}

// Refuses a host port that another container already uses.
void CheckHostPorts(const Checked& container, std::set<std::string>& taken) {
  for (const Checked& port : container["ports"].Items()) {
    if (port["hostPort"].number() == 0) continue;
    const std::string address = fmt::format("{}/{}/{}", port["protocol"].text(),
                                            port["hostIP"].text(), port["hostPort"].number());
    if (!taken.insert(address).second) port["hostPort"].Duplicate(address);
  }
}

void CheckHostNetworkPorts(const Checked& container, PodSpecOf of) {
  for (const Checked& port : container["ports"].Items()) {
    const int64_t host = port["hostPort"].number();
    if ((of == PodSpecOf::kPod || host != 0) && host != port["containerPort"].number()) {
      port["hostPort"].Invalid(host, "must match `containerPort` when `hostNetwork` is true");
    }
  }
}

// A sidecar (an init container with restartPolicy Always) follows the rules of other containers,
// because it keeps running beside them.
void CheckInitContainer(const Checked& container) {
  const Checked policy = container["restartPolicy"];
  policy.OneOfIfGiven({"Always"});
  if (policy.text() == "Always") return CheckLifecycle(container);
  for (const std::string_view member :
       {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}) {
    if (container[member].present()) {
      container[member].Forbidden(
          "may not be set for init containers without restartPolicy=Always");
    }
  }
}

// A person adds an ephemeral container to debug a running pod. It cannot have fields that would
// make the node agent keep it running, or the scheduler count it.
void CheckEphemeralContainer(const Checked& container, const std::set<std::string>& others) {
  constexpr std::string_view kNot = "cannot be set for an Ephemeral Container";
  for (const std::string_view member : {"ports", "livenessProbe", "readinessProbe", "startupProbe",
                                        "lifecycle", "resources", "resizePolicy"}) {
    if (container[member].given()) container[member].Forbidden(kNot);
  }
  for (const Checked& mount : container["volumeMounts"].Items()) {
    for (const std::string_view member : {"subPath", "subPathExpr"}) {
      if (mount[member].given()) mount[member].Forbidden(kNot);
    }
  }
  if (container["restartPolicy"].present()) {
    container["restartPolicy"].Forbidden("may not be set for non-init containers");
  }
  const Checked target = container["targetContainerName"];
  if (target.given() && !others.contains(target.text())) target.NotFound();
}

}  // namespace

void DefaultContainer(Json& container) {
  SetDefault(container, {"imagePullPolicy"},
             std::string(PullPolicyFor(String(container, {"image"}))));
  SetDefault(container, {"terminationMessagePath"}, "/dev/termination-log");
  SetDefault(container, {"terminationMessagePolicy"}, "File");
  SetDefault(container, {"resources"}, Json::object());
  if (Json* ports = FindMutable(container, {"ports"}); ports != nullptr && ports->is_array()) {
    for (Json& port : *ports) SetDefault(port, {"protocol"}, "TCP");
  }
  if (Json* env = FindMutable(container, {"env"}); env != nullptr && env->is_array()) {
    for (Json& variable : *env) {
      if (Find(variable, {"valueFrom", "fieldRef"}) != nullptr) {
        SetDefault(variable, {"valueFrom", "fieldRef", "apiVersion"}, "v1");
      }
    }
  }
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
    if (Json* found = FindMutable(container, {probe})) DefaultProbe(*found);
  }
  for (const char* hook : {"postStart", "preStop"}) {
    if (Json* handler = FindMutable(container, {"lifecycle", hook})) DefaultHandler(*handler);
  }
}

void ValidateContainers(const Checked& spec, PodSpecOf of) {
  Volumes volumes;
  for (const Checked& volume : spec["volumes"].Items()) {
    volumes.emplace(volume["name"].text(), &volume.json());
  }
  const bool host_network = spec["hostNetwork"].flag();
  std::set<std::string> names;
  std::set<std::string> host_ports;
  spec["containers"].Needed();
  for (const Checked& container : spec["containers"].Items()) {
    CheckContainer(container, volumes, of);
    if (container["name"].given()) container["name"].Unique(names);
    CheckLifecycle(container);
    if (container["restartPolicy"].present()) {
      container["restartPolicy"].Forbidden("may not be set for non-init containers");
    }
    CheckHostPorts(container, host_ports);
    if (host_network) CheckHostNetworkPorts(container, of);
  }
  for (const Checked& container : spec["initContainers"].Items()) {
    CheckContainer(container, volumes, of);
    if (container["name"].given()) container["name"].Unique(names);
    std::set<std::string> own_ports;  // init containers run one after the other
    CheckHostPorts(container, own_ports);
    CheckInitContainer(container);
  }
  const std::set<std::string> others = names;
  for (const Checked& container : spec["ephemeralContainers"].Items()) {
    CheckContainer(container, volumes, of);
    if (container["name"].given()) container["name"].Unique(names);
    CheckEphemeralContainer(container, others);
  }
}

}  // namespace berth::apiserver
