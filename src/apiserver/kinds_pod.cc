// Pod.

#include <set>

#include "api/names.h"
#include "apiserver/kind_rules.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

constexpr int kDefaultFileMode = 0644;

// ":latest" and no tag at all mean that the image moves: pull it each time.
std::string_view PullPolicyFor(std::string_view image) {
  if (image.find('@') != std::string_view::npos) return "IfNotPresent";
  const size_t slash = image.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? image : image.substr(slash + 1);
  const size_t colon = last.find(':');
  const bool moves = colon == std::string_view::npos || last.substr(colon + 1) == "latest";
  return moves ? "Always" : "IfNotPresent";
}

void DefaultContainer(Json& container) {
  if (!container.is_object()) return;
  Default(container, {"imagePullPolicy"}, std::string(PullPolicyFor(String(container, {"image"}))));
  Default(container, {"terminationMessagePath"}, "/dev/termination-log");
  Default(container, {"terminationMessagePolicy"}, "File");
  Default(container, {"resources"}, Json::object());
  if (container.contains("ports") && container["ports"].is_array()) {
    for (Json& port : container["ports"]) Default(port, {"protocol"}, "TCP");
  }
}

void DefaultVolume(Json& volume) {
  if (!volume.is_object()) return;
  if (volume.size() == 1 && volume.contains("name")) volume["emptyDir"] = Json::object();
  for (const char* source : {"secret", "configMap", "projected", "downwardAPI"}) {
    if (volume.contains(source)) Default(volume, {source, "defaultMode"}, kDefaultFileMode);
  }
  if (volume.contains("hostPath")) Default(volume, {"hostPath", "type"}, "");
}

void DefaultPod(Json& object) {
  Default(object, {"spec", "restartPolicy"}, "Always");
  Default(object, {"spec", "dnsPolicy"}, "ClusterFirst");
  Default(object, {"spec", "terminationGracePeriodSeconds"}, 30);
  Default(object, {"spec", "schedulerName"}, "default-scheduler");
  Default(object, {"spec", "securityContext"}, Json::object());
  Default(object, {"spec", "serviceAccountName"}, "default");
  Json& spec = object["spec"];
  for (const char* list : {"containers", "initContainers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (Json& container : spec[list]) DefaultContainer(container);
  }
  if (spec.contains("volumes") && spec["volumes"].is_array()) {
    for (Json& volume : spec["volumes"]) DefaultVolume(volume);
  }
}

// Kubernetes' rule for paths inside a volume: they must not lead out of it.
bool HasDotDot(std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

void ValidateVolumeSource(const Json& volume, const std::string& field, FieldErrors& errors) {
  size_t sources = 0;
  for (const auto& [key, value] : volume.items()) {
    if (key != "name") ++sources;
  }
  if (sources > 1) errors.Forbidden(field, "may not specify more than 1 volume type");
  if (const Json* path = Find(volume, {"hostPath", "path"})) {
    if (HasDotDot(String(volume, {"hostPath", "path"}))) {
      errors.Invalid(field + ".hostPath.path", *path, "must not contain '..'");
    }
  }
  if (volume.contains("hostPath")) {
    CheckPresent(volume, {"hostPath", "path"}, field + ".hostPath.path", errors);
  }
  if (volume.contains("persistentVolumeClaim")) {
    CheckPresent(volume, {"persistentVolumeClaim", "claimName"},
                 field + ".persistentVolumeClaim.claimName", errors);
  }
  if (volume.contains("secret")) {
    CheckPresent(volume, {"secret", "secretName"}, field + ".secret.secretName", errors);
  }
  if (volume.contains("configMap")) {
    CheckPresent(volume, {"configMap", "name"}, field + ".configMap.name", errors);
  }
  if (volume.contains("csi")) {
    CheckPresent(volume, {"csi", "driver"}, field + ".csi.driver", errors);
  }
  if (volume.contains("flexVolume")) {
    CheckPresent(volume, {"flexVolume", "driver"}, field + ".flexVolume.driver", errors);
  }
}

std::set<std::string> ValidateVolumes(const Json& spec, FieldErrors& errors) {
  std::set<std::string> names;
  size_t i = 0;
  for (const Json& volume : Array(spec, {"volumes"})) {
    const std::string field = fmt::format("spec.volumes[{}]", i++);
    const std::string name = String(volume, {"name"});
    if (name.empty()) {
      errors.Required(field + ".name");
    } else {
      errors.Check(field + ".name", name, api::CheckDns1123Label(name));
    }
    if (!names.insert(name).second) errors.Duplicate(field + ".name", name);
    ValidateVolumeSource(volume, field, errors);
  }
  return names;
}

void ValidateMounts(const Json& container, const std::string& field,
                    const std::set<std::string>& volumes, FieldErrors& errors) {
  std::set<std::string> paths;
  std::set<std::string> devices;
  size_t i = 0;
  for (const Json& device : Array(container, {"volumeDevices"})) {
    const std::string at = fmt::format("{}.volumeDevices[{}]", field, i++);
    const std::string name = String(device, {"name"});
    if (!volumes.contains(name)) errors.NotFound(at + ".name", name);
    CheckPresent(device, {"devicePath"}, at + ".devicePath", errors);
    if (!devices.insert(name).second) {
      errors.Invalid(at + ".name", name, "must be unique");
    }
    if (!paths.insert(String(device, {"devicePath"})).second) {
      errors.Invalid(at + ".devicePath", String(device, {"devicePath"}), "must be unique");
    }
  }
  i = 0;
  for (const Json& mount : Array(container, {"volumeMounts"})) {
    const std::string at = fmt::format("{}.volumeMounts[{}]", field, i++);
    const std::string name = String(mount, {"name"});
    const std::string path = String(mount, {"mountPath"});
    const std::string sub = String(mount, {"subPath"});
    if (name.empty()) {
      errors.Required(at + ".name");
    } else if (!volumes.contains(name)) {
      errors.NotFound(at + ".name", name);
    }
    if (path.empty()) errors.Required(at + ".mountPath");
    if (!paths.insert(path).second) errors.Invalid(at + ".mountPath", path, "must be unique");
    if (devices.contains(name)) {
      errors.Invalid(at + ".name", name, "must not already exist in volumeDevices");
    }
    if (sub.starts_with('/')) errors.Invalid(at + ".subPath", sub, "must be a relative path");
    if (HasDotDot(sub)) errors.Invalid(at + ".subPath", sub, "must not contain '..'");
    if (!sub.empty() && !String(mount, {"subPathExpr"}).empty()) {
      errors.Invalid(at + ".subPathExpr", String(mount, {"subPathExpr"}),
                     "subPathExpr and subPath are mutually exclusive");
    }
    if (mount.contains("mountPropagation")) {
      CheckOneOf(mount, {"mountPropagation"}, at + ".mountPropagation",
                 {"Bidirectional", "HostToContainer", "None"}, errors);
      if (String(mount, {"mountPropagation"}) == "Bidirectional" &&
          !Bool(container, {"securityContext", "privileged"})) {
        errors.Forbidden(
            at + ".mountPropagation",
            "Bidirectional mount propagation is available only to privileged containers");
      }
    }
  }
}

void ValidateContainers(const Json& spec, std::string_view list,
                        const std::set<std::string>& volumes, std::set<std::string>& names,
                        FieldErrors& errors) {
  size_t i = 0;
  for (const Json& container : Array(spec, {list})) {
    const std::string field = fmt::format("spec.{}[{}]", list, i++);
    const std::string name = String(container, {"name"});
    if (name.empty()) {
      errors.Required(field + ".name");
    } else {
      errors.Check(field + ".name", name, api::CheckDns1123Label(name));
      if (!names.insert(name).second) errors.Duplicate(field + ".name", name);
    }
    CheckPresent(container, {"image"}, field + ".image", errors);
    CheckOneOf(container, {"imagePullPolicy"}, field + ".imagePullPolicy",
               {"Always", "IfNotPresent", "Never"}, errors);
    size_t k = 0;
    for (const Json& variable : Array(container, {"env"})) {
      CheckPresent(variable, {"name"}, fmt::format("{}.env[{}].name", field, k++), errors);
    }
    k = 0;
    for (const Json& port : Array(container, {"ports"})) {
      const int64_t number = Int(port, {"containerPort"});
      const std::string at = fmt::format("{}.ports[{}].containerPort", field, k++);
      if (number < 1 || number > 65535) {
        errors.Invalid(at, number, "must be between 1 and 65535, inclusive");
      }
    }
    ValidateMounts(container, field, volumes, errors);
  }
}

void ValidatePod(const Json& object, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  const std::set<std::string> volumes = ValidateVolumes(spec, errors);
  std::set<std::string> names;
  if (Array(spec, {"containers"}).empty()) errors.Required("spec.containers");
  ValidateContainers(spec, "containers", volumes, names, errors);
  ValidateContainers(spec, "initContainers", volumes, names, errors);
  CheckOneOf(spec, {"restartPolicy"}, "spec.restartPolicy", {"Always", "OnFailure", "Never"},
             errors);
  CheckOneOf(spec, {"dnsPolicy"}, "spec.dnsPolicy",
             {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"}, errors);
  const int64_t grace = Int(spec, {"terminationGracePeriodSeconds"});
  if (grace < 0) {
    errors.Invalid("spec.terminationGracePeriodSeconds", grace,
                   "must be greater than or equal to 0");
  }
  for (const std::string_view field : {"nodeName", "serviceAccountName"}) {
    const std::string name = String(spec, {field});
    if (!name.empty()) {
      errors.Check(fmt::format("spec.{}", field), name, api::CheckDns1123Subdomain(name));
    }
  }
}

Json WithoutMutable(const Json& spec) {
  Json fixed = spec;
  for (const char* list : {"containers", "initContainers"}) {
    if (!fixed.contains(list) || !fixed[list].is_array()) continue;
    for (Json& container : fixed[list]) {
      if (container.is_object()) container.erase("image");
    }
  }
  for (const char* field : {"activeDeadlineSeconds", "tolerations"}) fixed.erase(field);
  return fixed;
}

// Of a pod only images, the deadline and further tolerations change: the node agent acts on a spec
// once.
void UpdatePod(const Json& object, const Json& old, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  const Json& before = Map(old, {"spec"});
  const Json& tolerations = Array(spec, {"tolerations"});
  bool same = WithoutMutable(spec) == WithoutMutable(before);
  for (const Json& toleration : Array(before, {"tolerations"})) {
    same &= std::find(tolerations.begin(), tolerations.end(), toleration) != tolerations.end();
  }
  if (!same) {
    errors.Forbidden("spec",
                     "pod updates may not change fields other than `spec.containers[*].image`,"
                     "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
                     "`spec.tolerations` (only additions to existing tolerations)");
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
  pod.validate = ValidatePod;
  pod.validate_update = UpdatePod;
  rules.push_back(pod);
}

}  // namespace berth::apiserver
