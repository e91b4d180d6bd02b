#include "apiserver/kinds/pod_references.h"

#include <fmt/format.h>

#include <set>

namespace berth::apiserver {

using base::Json;
using base::json::Array;
using base::json::Find;
using base::json::String;

namespace {

class Collector {
 public:
  explicit Collector(const Json& pod)
      : pod_name_(String(pod, {"metadata", "name"})), ns_(String(pod, {"metadata", "namespace"})) {}

  void Add(std::string_view resource, const std::string& name) {
    if (!name.empty()) found_.insert(ReferenceTo(resource, ns_, name));
  }

  void AddContainer(const Json& container) {
    for (const Json& variable : Array(container, {"env"})) {
      Add("secrets", String(variable, {"valueFrom", "secretKeyRef", "name"}));
      Add("configmaps", String(variable, {"valueFrom", "configMapKeyRef", "name"}));
    }
    for (const Json& source : Array(container, {"envFrom"})) {
      Add("secrets", String(source, {"secretRef", "name"}));
      Add("configmaps", String(source, {"configMapRef", "name"}));
    }
  }

  void AddVolume(const Json& volume) {
    Add("secrets", String(volume, {"secret", "secretName"}));
    Add("configmaps", String(volume, {"configMap", "name"}));
    Add("persistentvolumeclaims", String(volume, {"persistentVolumeClaim", "claimName"}));
    if (Find(volume, {"ephemeral"}) != nullptr) {
      Add("persistentvolumeclaims", fmt::format("{}-{}", pod_name_, String(volume, {"name"})));
    }
    for (const Json& source : Array(volume, {"projected", "sources"})) {
      Add("secrets", String(source, {"secret", "name"}));
      Add("configmaps", String(source, {"configMap", "name"}));
    }
    Add("secrets", String(volume, {"csi", "nodePublishSecretRef", "name"}));
    Add("secrets", String(volume, {"flexVolume", "secretRef", "name"}));
    for (const std::string_view source : {"cephfs", "rbd", "iscsi"}) {
      Add("secrets", String(volume, {source, "secretRef", "name"}));
    }
    Add("endpoints", String(volume, {"glusterfs", "endpoints"}));
  }

  std::vector<std::string> TakeReferences() { return {found_.begin(), found_.end()}; }

 private:
  const std::string pod_name_;
  const std::string ns_;
  std::set<std::string> found_;
};

}  // namespace

std::string ReferenceTo(std::string_view resource, std::string_view ns, std::string_view name) {
  return fmt::format("{}/{}/{}", resource, ns, name);
}

std::vector<std::string> FindPodReferences(const Json& pod) {
  if (Find(base::json::Map(pod, {"metadata", "annotations"}), {"kubernetes.io/config.mirror"}) !=
      nullptr) {
    return {};
  }
  Collector found(pod);
  const Json& spec = base::json::Map(pod, {"spec"});
  for (const std::string_view list : {"containers", "initContainers", "ephemeralContainers"}) {
    for (const Json& container : Array(spec, {list})) found.AddContainer(container);
  }
  for (const Json& volume : Array(spec, {"volumes"})) found.AddVolume(volume);
  for (const Json& secret : Array(spec, {"imagePullSecrets"})) {
    found.Add("secrets", String(secret, {"name"}));
  }
  found.Add("serviceaccounts", String(spec, {"serviceAccountName"}));
  return found.TakeReferences();
}

bool VolumeRefersTo(const Json& volume, std::string_view resource, std::string_view ns,
                    std::string_view name) {
  const std::string claim_ns = String(volume, {"spec", "claimRef", "namespace"});
  if (resource == "endpoints") {
    const Json& gluster = base::json::Map(volume, {"spec", "glusterfs"});
    return String(gluster, {"endpoints"}) == name &&
           String(gluster, {"endpointsNamespace"}, claim_ns) == ns;
  }
  if (resource != "secrets") return false;
  const auto names = [&](const Json& reference, const std::string& default_ns) {
    return String(reference, {"name"}) == name &&
           String(reference, {"namespace"}, default_ns) == ns;
  };
  const Json& csi = base::json::Map(volume, {"spec", "csi"});
  // Only the secrets that nodes use are listed; the others are for controllers.
  for (const std::string_view use :
       {"nodeStageSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"}) {
    if (names(base::json::Map(csi, {use}), "")) return true;
  }
  for (const std::string_view source : {"flexVolume", "cephfs", "rbd", "iscsi"}) {
    if (names(base::json::Map(volume, {"spec", source, "secretRef"}), claim_ns)) return true;
  }
  return false;
}

}  // namespace berth::apiserver
