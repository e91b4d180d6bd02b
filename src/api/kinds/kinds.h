// Typed views of the kinds in kind_info.h, with accessors for the fields that Berth's code reads.
//
// Field names and meanings are those of the Kubernetes API reference. The getter of an absent field
// returns the API's default if there is one, and otherwise the type's zero value. If code needs
// another field of these kinds, add an accessor here instead of a path in that code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kind_info.h"
#include "api/object.h"

namespace berth::api {

// A part of an object (a container, a volume, a reference), by value.
class Part {
 public:
  Part() : json_(Json::object()) {}
  explicit Part(Json json) : json_(std::move(json)) {}
  const Json& json() const { return json_; }
  std::string String(base::json::Path path, std::string_view fallback = "") const {
    return base::json::String(json_, path, fallback);
  }
  bool Bool(base::json::Path path, bool fallback = false) const {
    return base::json::Bool(json_, path, fallback);
  }
  int64_t Int(base::json::Path path, int64_t fallback = 0) const {
    return base::json::Int(json_, path, fallback);
  }
  bool Has(base::json::Path path) const { return base::json::Find(json_, path) != nullptr; }

 private:
  Json json_;
};

// Name and namespace of a Secret; both empty: there is none.
struct SecretReference {
  std::string name;
  std::string ns;
  bool empty() const { return name.empty(); }
};

// PersistentVolume.spec.csi, and (with inline_volume) Pod.spec.volumes[].csi.
class CsiSource : public Part {
 public:
  using Part::Part;
  std::string driver() const { return String({"driver"}); }
  std::string volume_handle() const { return String({"volumeHandle"}); }
  bool read_only() const { return Bool({"readOnly"}); }
  std::string fs_type() const { return String({"fsType"}); }
  Labels volume_attributes() const;
  // The Secret in the field `which`: "controllerPublishSecretRef", "nodeStageSecretRef",
  // "nodePublishSecretRef", "controllerExpandSecretRef", "nodeExpandSecretRef".
  SecretReference secret_ref(std::string_view which) const;
};

class Namespace : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kNamespace;
  using Object::Object;
  bool terminating() const { return String({"status", "phase"}) == "Terminating"; }
  // The finalizers in spec that keep a terminating namespace, besides metadata.finalizers.
  std::vector<std::string> spec_finalizers() const { return Strings({"spec", "finalizers"}); }
};

class Node : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kNode;
  using Object::Object;
  bool unschedulable() const { return Bool({"spec", "unschedulable"}); }
  bool ready() const;                 // condition Ready is True
  std::string ready_message() const;  // the message of that condition
  // The condition of this type; nullptr if there is none.
  const Json* condition(std::string_view type) const;
  // "REGION:ZONE" from the well-known labels; empty if the node has neither. Nodes of one zone may
  // fail together.
  std::string zone() const;
  std::vector<std::string> volumes_in_use() const { return Strings({"status", "volumesInUse"}); }
  // Names in status.volumesAttached.
  std::vector<std::string> volumes_attached() const;
  bool has_taint(std::string_view key) const;
  // spec.taints[]: key, value, effect and timeAdded.
  const Json& taints() const { return base::json::Array(json(), {"spec", "taints"}); }
};

// Pod.spec.volumes[]
class PodVolume : public Part {
 public:
  using Part::Part;
  std::string name() const { return String({"name"}); }
  // "persistentVolumeClaim", "emptyDir", "hostPath", "configMap", "secret", "projected",
  // "downwardAPI", "csi", ...: the one member beside "name"; empty if there is none.
  std::string source_type() const;
  std::string claim_name() const { return String({"persistentVolumeClaim", "claimName"}); }
  bool has_claim_template() const { return Has({"ephemeral", "volumeClaimTemplate"}); }
  bool claim_read_only() const { return Bool({"persistentVolumeClaim", "readOnly"}); }
};

// Pod.spec.containers[].volumeMounts[]
class VolumeMount : public Part {
 public:
  using Part::Part;
  std::string name() const { return String({"name"}); }
  std::string mount_path() const { return String({"mountPath"}); }
  std::string sub_path() const { return String({"subPath"}); }
  std::string sub_path_expr() const { return String({"subPathExpr"}); }
  bool read_only() const { return Bool({"readOnly"}); }
  // "None", "HostToContainer" or "Bidirectional".
  std::string mount_propagation() const { return String({"mountPropagation"}, "None"); }
};

// Pod.spec.containers[], initContainers[] and ephemeralContainers[]
class Container : public Part {
 public:
  using Part::Part;
  std::string name() const { return String({"name"}); }
  std::string image() const { return String({"image"}); }
  std::string image_pull_policy() const { return String({"imagePullPolicy"}); }
  std::vector<std::string> command() const;
  std::vector<std::string> args() const;
  std::vector<VolumeMount> volume_mounts() const;
  // spec.volumeDevices[]: name and devicePath.
  std::vector<std::pair<std::string, std::string>> volume_devices() const;
};

class Pod : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kPod;
  using Object::Object;
  std::string node_name() const { return String({"spec", "nodeName"}); }
  std::string phase() const { return String({"status", "phase"}, "Pending"); }
  bool terminated() const { return phase() == "Succeeded" || phase() == "Failed"; }
  std::string restart_policy() const { return String({"spec", "restartPolicy"}, "Always"); }
  bool host_network() const { return Bool({"spec", "hostNetwork"}); }
  std::string scheduler_name() const {
    return String({"spec", "schedulerName"}, "default-scheduler");
  }
  bool has_scheduling_gates() const {
    return !base::json::Array(json(), {"spec", "schedulingGates"}).empty();
  }
  Labels node_selector() const { return StringMap({"spec", "nodeSelector"}); }
  // The NodeSelector of required node affinity; nullptr if there is none.
  const Json* required_node_affinity() const {
    return base::json::Find(json(), {"spec", "affinity", "nodeAffinity",
                                     "requiredDuringSchedulingIgnoredDuringExecution"});
  }
  // spec.tolerations[]: key, operator, value, effect and tolerationSeconds.
  const Json& tolerations() const { return base::json::Array(json(), {"spec", "tolerations"}); }
  // The condition of this type; nullptr if there is none.
  const Json* condition(std::string_view type) const;
  bool ready() const;  // condition Ready is True
  std::string service_account_name() const {
    return String({"spec", "serviceAccountName"}, "default");
  }
  int64_t termination_grace_seconds() const {
    return Int({"spec", "terminationGracePeriodSeconds"}, 30);
  }
  std::optional<int64_t> fs_group() const;
  std::string fs_group_change_policy() const {
    return String({"spec", "securityContext", "fsGroupChangePolicy"}, "Always");
  }
  std::vector<PodVolume> volumes() const;
  std::vector<Container> containers() const;
  std::vector<Container> init_containers() const;
  std::vector<Container> ephemeral_containers() const;
};

class PersistentVolumeClaim : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kPersistentVolumeClaim;
  using Object::Object;
  std::vector<std::string> access_modes() const { return Strings({"spec", "accessModes"}); }
  // nullopt (the field is absent) asks for the default class, "" for a volume without a class.
  std::optional<std::string> storage_class_name() const;
  std::string volume_name() const { return String({"spec", "volumeName"}); }
  // spec.selector; nullptr if there is none.
  const Json* selector() const { return base::json::Find(json(), {"spec", "selector"}); }
  std::string volume_attributes_class_name() const {
    return String({"spec", "volumeAttributesClassName"});
  }
  // spec.dataSourceRef, or else spec.dataSource: apiGroup, kind and name. Its kind is empty if the
  // claim has neither.
  Part data_source() const;
  std::string volume_mode() const { return String({"spec", "volumeMode"}, "Filesystem"); }
  // A Kubernetes quantity, as api/quantity.h parses it.
  std::string requested_storage() const {
    return String({"spec", "resources", "requests", "storage"});
  }
  std::string capacity() const { return String({"status", "capacity", "storage"}); }
  // The size to which the volume is being resized (a quantity), and the state of the resize:
  // "ControllerResizeInProgress", ...
  std::string allocated_storage() const {
    return String({"status", "allocatedResources", "storage"});
  }
  std::string resize_status() const {
    return String({"status", "allocatedResourceStatuses", "storage"});
  }
  const Json& conditions() const { return base::json::Array(json(), {"status", "conditions"}); }
  std::string phase() const { return String({"status", "phase"}, "Pending"); }
};

class PersistentVolume : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kPersistentVolume;
  using Object::Object;
  std::string capacity() const { return String({"spec", "capacity", "storage"}); }
  std::vector<std::string> access_modes() const { return Strings({"spec", "accessModes"}); }
  std::vector<std::string> mount_options() const { return Strings({"spec", "mountOptions"}); }
  std::string storage_class_name() const { return String({"spec", "storageClassName"}); }
  std::string volume_mode() const { return String({"spec", "volumeMode"}, "Filesystem"); }
  std::string reclaim_policy() const {
    return String({"spec", "persistentVolumeReclaimPolicy"}, "Retain");
  }
  std::string phase() const { return String({"status", "phase"}, "Pending"); }
  bool has_claim_ref() const { return base::json::Find(json(), {"spec", "claimRef"}) != nullptr; }
  // The NodeSelector of spec.nodeAffinity.required; nullptr if there is none.
  const Json* node_affinity() const {
    return base::json::Find(json(), {"spec", "nodeAffinity", "required"});
  }
  std::string volume_attributes_class_name() const {
    return String({"spec", "volumeAttributesClassName"});
  }
  std::string claim_namespace() const { return String({"spec", "claimRef", "namespace"}); }
  std::string claim_name() const { return String({"spec", "claimRef", "name"}); }
  std::string claim_uid() const { return String({"spec", "claimRef", "uid"}); }
  bool has_csi() const { return base::json::Find(json(), {"spec", "csi"}) != nullptr; }
  CsiSource csi() const { return CsiSource(base::json::Map(json(), {"spec", "csi"})); }
};

class Secret : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kSecret;
  using Object::Object;
};

class ConfigMap : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kConfigMap;
  using Object::Object;
};

class ServiceAccount : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kServiceAccount;
  using Object::Object;
};

// The addresses of servers under one name; for example the servers of a GlusterFS volume.
class Endpoints : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kEndpoints;
  using Object::Object;
  // The ready IP addresses of all subsets, each once, in their order.
  std::vector<std::string> addresses() const;
};

class Event : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kEvent;
  using Object::Object;
};

// events.k8s.io/v1: the form in which newer clients read and write core Events.
class EventsEvent : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kEventsEvent;
  using Object::Object;
};

class StorageClass : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kStorageClass;
  using Object::Object;
  std::string provisioner() const { return String({"provisioner"}); }
  Labels parameters() const { return StringMap({"parameters"}); }
  std::string reclaim_policy() const { return String({"reclaimPolicy"}, "Delete"); }
  std::vector<std::string> mount_options() const { return Strings({"mountOptions"}); }
  bool allow_volume_expansion() const { return Bool({"allowVolumeExpansion"}); }
  // allowedTopologies[]: matchLabelExpressions[] of key and values.
  const Json& allowed_topologies() const {
    return base::json::Array(json(), {"allowedTopologies"});
  }
  bool wait_for_first_consumer() const {
    return String({"volumeBindingMode"}, "Immediate") == "WaitForFirstConsumer";
  }
};

class VolumeAttachment : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeAttachment;
  using Object::Object;
  std::string attacher() const { return String({"spec", "attacher"}); }
  std::string node_name() const { return String({"spec", "nodeName"}); }
  std::string pv_name() const { return String({"spec", "source", "persistentVolumeName"}); }
  // The volume's spec, as that of a PersistentVolume, if the volume has no object of its own; else
  // nullptr.
  const Json* inline_volume() const {
    return base::json::Find(json(), {"spec", "source", "inlineVolumeSpec"});
  }
  bool attached() const { return Bool({"status", "attached"}); }
  Labels attachment_metadata() const { return StringMap({"status", "attachmentMetadata"}); }
  std::string attach_error() const { return String({"status", "attachError", "message"}); }
  std::string detach_error() const { return String({"status", "detachError", "message"}); }
};

class CsiNode : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kCsiNode;
  using Object::Object;
  struct Driver {
    std::string name;
    std::string node_id;
    std::vector<std::string> topology_keys;
    std::optional<int64_t> allocatable_count;
  };
  std::vector<Driver> drivers() const;
  std::optional<Driver> driver(std::string_view name) const;
};

class CsiDriver : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kCsiDriver;
  using Object::Object;
  bool attach_required() const { return Bool({"spec", "attachRequired"}, true); }
  bool pod_info_on_mount() const { return Bool({"spec", "podInfoOnMount"}); }
  bool storage_capacity() const { return Bool({"spec", "storageCapacity"}); }
  // "None", "File" or "ReadWriteOnceWithFSType".
  std::string fs_group_policy() const {
    return String({"spec", "fsGroupPolicy"}, "ReadWriteOnceWithFSType");
  }
  bool requires_republish() const { return Bool({"spec", "requiresRepublish"}); }
  bool supports_lifecycle(std::string_view mode) const;  // "Persistent" or "Ephemeral"
};

class CsiStorageCapacity : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kCsiStorageCapacity;
  using Object::Object;
  std::string storage_class_name() const { return String({"storageClassName"}); }
  // A LabelSelector on nodes; nullptr: no node can reach this storage.
  const Json* node_topology() const { return base::json::Find(json(), {"nodeTopology"}); }
  // Quantities; "" if not given.
  std::string capacity() const { return String({"capacity"}); }
  std::string maximum_volume_size() const { return String({"maximumVolumeSize"}); }
};

class VolumeAttributesClass : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeAttributesClass;
  using Object::Object;
  std::string driver_name() const { return String({"driverName"}); }
  Labels parameters() const { return StringMap({"parameters"}); }
};

class RuntimeClass : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kRuntimeClass;
  using Object::Object;
  std::string handler() const { return String({"handler"}); }
  Labels node_selector() const { return StringMap({"scheduling", "nodeSelector"}); }
  // scheduling.tolerations[], which pods of the class get.
  const Json& tolerations() const {
    return base::json::Array(json(), {"scheduling", "tolerations"});
  }
};

// coordination.k8s.io/v1
class Lease : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kLease;
  using Object::Object;
  std::string renew_time() const { return String({"spec", "renewTime"}); }
};

class DaemonSet : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kDaemonSet;
  using Object::Object;
  // spec.selector, a LabelSelector; an empty object if there is none.
  const Json& selector() const { return base::json::Map(json(), {"spec", "selector"}); }
  // spec.template: metadata and spec of the pods.
  const Json& pod_template() const { return base::json::Map(json(), {"spec", "template"}); }
  bool on_delete() const {
    return String({"spec", "updateStrategy", "type"}, "RollingUpdate") == "OnDelete";
  }
  // A whole number or "10%"; nullptr stands for the default: no surge, one unavailable.
  const Json* max_surge() const {
    return base::json::Find(json(), {"spec", "updateStrategy", "rollingUpdate", "maxSurge"});
  }
  const Json* max_unavailable() const {
    return base::json::Find(json(), {"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"});
  }
  int64_t min_ready_seconds() const { return Int({"spec", "minReadySeconds"}); }
  int64_t revision_history_limit() const { return Int({"spec", "revisionHistoryLimit"}, 10); }
  // A counter that is a part of the hash in a revision's name. It grows if the name is taken, so
  // that another name is chosen.
  int64_t collision_count() const { return Int({"status", "collisionCount"}); }
};

class ControllerRevision : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kControllerRevision;
  using Object::Object;
  const Json& data() const { return base::json::Map(json(), {"data"}); }
  int64_t revision() const { return Int({"revision"}); }
};

class CustomResourceDefinition : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kCustomResourceDefinition;
  using Object::Object;
  std::string group() const { return String({"spec", "group"}); }
  std::string plural() const { return String({"spec", "names", "plural"}); }
  bool namespaced() const { return String({"spec", "scope"}) == "Namespaced"; }
  // spec.versions[]: name, served, storage, schema, subresources, additionalPrinterColumns.
  const Json& versions() const { return base::json::Array(json(), {"spec", "versions"}); }
};

class ApiService : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kApiService;
  using Object::Object;
};

// storage.berth.dev/v1alpha1: a claim mounted on the host itself, at a path that a person chose.
// The node agent of the node in spec.nodeName mounts it, and unmounts it before the object is
// removed (a finalizer).
class HostMount : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kHostMount;
  using Object::Object;
  std::string node_name() const { return String({"spec", "nodeName"}); }
  std::string claim_name() const { return String({"spec", "claimName"}); }  // in its own namespace
  std::string path() const { return String({"spec", "path"}); }             // absolute
  bool read_only() const { return Bool({"spec", "readOnly"}); }
  std::string phase() const { return String({"status", "phase"}, "Pending"); }  // Pending, Mounted
  std::string message() const { return String({"status", "message"}); }
};

}  // namespace berth::api
