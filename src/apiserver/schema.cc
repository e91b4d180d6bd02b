#include "apiserver/schema.h"

#include "apiserver/kube_status.h"

namespace berth::apiserver {

using base::Json;
using base::Status;

namespace {

// The notation of a type:
//   s string   i integer   b boolean   q quantity (string or number)   o integer or string   x
//   anything [T] list   <T> map from strings   {field:T ...} object   $Name one of the types below
struct NamedType {
  std::string_view name;
  std::string_view text;
};

constexpr NamedType kTypes[] = {
    {"Meta",
     "{name:s generateName:s namespace:s uid:s resourceVersion:s generation:i creationTimestamp:s "
     "deletionTimestamp:s deletionGracePeriodSeconds:i labels:<s> annotations:<s> finalizers:[s] "
     "ownerReferences:[{apiVersion:s kind:s name:s uid:s controller:b blockOwnerDeletion:b}]}"},
    {"LocalRef", "{name:s}"},
    {"SecretRef", "{name:s namespace:s}"},
    {"ObjectRef", "{apiVersion:s kind:s namespace:s name:s uid:s resourceVersion:s fieldPath:s}"},
    {"TypedRef", "{apiGroup:s kind:s name:s namespace:s}"},
    {"Requirement", "{key:s operator:s values:[s]}"},
    {"LabelSelector", "{matchLabels:<s> matchExpressions:[$Requirement]}"},
    {"NodeTerm", "{matchExpressions:[$Requirement] matchFields:[$Requirement]}"},
    {"NodeSelector", "{nodeSelectorTerms:[$NodeTerm]}"},
    {"Resources", "{limits:<q> requests:<q>}"},
    {"Condition",
     "{type:s status:s reason:s message:s lastTransitionTime:s lastProbeTime:s lastHeartbeatTime:s "
     "observedGeneration:i}"},
    {"KeyToPath", "{key:s path:s mode:i}"},
    {"KeyRef", "{name:s key:s optional:b}"},
    {"FieldRef", "{apiVersion:s fieldPath:s}"},
    {"ResourceRef", "{containerName:s resource:s divisor:q}"},
    {"DownwardItem", "{path:s fieldRef:$FieldRef resourceFieldRef:$ResourceRef mode:i}"},
    {"Items", "[$KeyToPath]"},
    {"ProjectedSource",
     "{secret:{name:s items:$Items optional:b} configMap:{name:s items:$Items optional:b} "
     "downwardAPI:{items:[$DownwardItem]} "
     "serviceAccountToken:{audience:s expirationSeconds:i path:s}}"},
    {"ClaimSpec",
     "{accessModes:[s] resources:$Resources volumeName:s selector:$LabelSelector "
     "storageClassName:s "
     "volumeMode:s dataSource:$TypedRef dataSourceRef:$TypedRef volumeAttributesClassName:s}"},
    {"PodVolume",
     "{name:s emptyDir:{medium:s sizeLimit:q} hostPath:{path:s type:s} "
     "persistentVolumeClaim:{claimName:s readOnly:b} "
     "secret:{secretName:s items:$Items defaultMode:i optional:b} "
     "configMap:{name:s items:$Items defaultMode:i optional:b} "
     "projected:{sources:[$ProjectedSource] defaultMode:i} "
     "downwardAPI:{items:[$DownwardItem] defaultMode:i} "
     "csi:{driver:s readOnly:b fsType:s volumeAttributes:<s> nodePublishSecretRef:$LocalRef} "
     "flexVolume:{driver:s fsType:s secretRef:$LocalRef readOnly:b options:<s>} "
     "ephemeral:{volumeClaimTemplate:{metadata:$Meta spec:$ClaimSpec}}}"},
    {"SecurityContext",
     "{privileged:b runAsUser:i runAsGroup:i runAsNonRoot:b readOnlyRootFilesystem:b "
     "allowPrivilegeEscalation:b procMount:s capabilities:{add:[s] drop:[s]} "
     "seLinuxOptions:{user:s role:s type:s level:s} seccompProfile:{type:s localhostProfile:s}}"},
    {"Handler",
     "{exec:{command:[s]} httpGet:{path:s port:o host:s scheme:s} tcpSocket:{port:o host:s}}"},
    {"Probe",
     "{exec:{command:[s]} httpGet:{path:s port:o host:s scheme:s} tcpSocket:{port:o host:s} "
     "grpc:{port:i service:s} initialDelaySeconds:i timeoutSeconds:i periodSeconds:i "
     "successThreshold:i failureThreshold:i}"},
    {"Env",
     "{name:s value:s valueFrom:{fieldRef:$FieldRef resourceFieldRef:$ResourceRef "
     "configMapKeyRef:$KeyRef secretKeyRef:$KeyRef}}"},
    {"EnvFrom", "{prefix:s configMapRef:{name:s optional:b} secretRef:{name:s optional:b}}"},
    {"Container",
     "{name:s image:s command:[s] args:[s] workingDir:s imagePullPolicy:s restartPolicy:s "
     "ports:[{name:s containerPort:i hostPort:i hostIP:s protocol:s}] env:[$Env] "
     "envFrom:[$EnvFrom] "
     "resources:$Resources volumeDevices:[{name:s devicePath:s}] "
     "volumeMounts:[{name:s readOnly:b mountPath:s subPath:s subPathExpr:s mountPropagation:s "
     "recursiveReadOnly:s}] "
     "securityContext:$SecurityContext livenessProbe:$Probe readinessProbe:$Probe "
     "startupProbe:$Probe "
     "lifecycle:{postStart:$Handler preStop:$Handler} terminationMessagePath:s "
     "terminationMessagePolicy:s stdin:b stdinOnce:b tty:b}"},
    {"Toleration", "{key:s operator:s value:s effect:s tolerationSeconds:i}"},
    {"ContainerState",
     "{waiting:{reason:s message:s} running:{startedAt:s} terminated:{exitCode:i signal:i reason:s "
     "message:s startedAt:s finishedAt:s containerID:s}}"},
    {"ContainerStatus",
     "{name:s state:$ContainerState lastState:$ContainerState ready:b restartCount:i image:s "
     "imageID:s "
     "containerID:s started:b}"},
    {"CsiPersistent",
     "{driver:s volumeHandle:s readOnly:b fsType:s volumeAttributes:<s> "
     "controllerPublishSecretRef:$SecretRef nodeStageSecretRef:$SecretRef "
     "nodePublishSecretRef:$SecretRef controllerExpandSecretRef:$SecretRef "
     "nodeExpandSecretRef:$SecretRef}"},
    {"VolumeSpec",
     "{capacity:<q> accessModes:[s] claimRef:$ObjectRef persistentVolumeReclaimPolicy:s "
     "storageClassName:s mountOptions:[s] volumeMode:s nodeAffinity:{required:$NodeSelector} "
     "volumeAttributesClassName:s csi:$CsiPersistent hostPath:{path:s type:s} local:{path:s "
     "fsType:s} "
     "flexVolume:{driver:s fsType:s secretRef:$SecretRef readOnly:b options:<s>}}"},
    {"AttachError", "{time:s message:s errorCode:i}"},
};

struct KindType {
  const api::KindInfo& info;
  std::string_view text;  // without apiVersion, kind and metadata, which all kinds have
};

const KindType kKinds[] = {
    {api::kinds::kNamespace, "spec:{finalizers:[s]} status:{phase:s conditions:[$Condition]}"},
    {api::kinds::kNode,
     "spec:{unschedulable:b podCIDR:s podCIDRs:[s] providerID:s taints:[{key:s value:s effect:s "
     "timeAdded:s}]} "
     "status:{capacity:<q> allocatable:<q> phase:s conditions:[$Condition] "
     "addresses:[{type:s address:s}] nodeInfo:<s> "
     "volumesInUse:[s] volumesAttached:[{name:s devicePath:s}] images:[{names:[s] sizeBytes:i}]}"},
    {api::kinds::kPod,
     "spec:{volumes:[$PodVolume] containers:[$Container] initContainers:[$Container] "
     "restartPolicy:s "
     "terminationGracePeriodSeconds:i activeDeadlineSeconds:i dnsPolicy:s nodeSelector:<s> "
     "serviceAccountName:s serviceAccount:s automountServiceAccountToken:b nodeName:s "
     "hostNetwork:b "
     "hostPID:b hostIPC:b shareProcessNamespace:b "
     "securityContext:{runAsUser:i runAsGroup:i runAsNonRoot:b supplementalGroups:[i] fsGroup:i "
     "fsGroupChangePolicy:s supplementalGroupsPolicy:s "
     "seLinuxOptions:{user:s role:s type:s level:s} sysctls:[{name:s value:s}]} "
     "imagePullSecrets:[$LocalRef] hostname:s subdomain:s schedulerName:s "
     "tolerations:[$Toleration] "
     "affinity:{nodeAffinity:{requiredDuringSchedulingIgnoredDuringExecution:$NodeSelector "
     "preferredDuringSchedulingIgnoredDuringExecution:[{weight:i preference:$NodeTerm}]}} "
     "hostAliases:[{ip:s hostnames:[s]}] priorityClassName:s priority:i runtimeClassName:s "
     "enableServiceLinks:b} "
     "status:{phase:s conditions:[$Condition] message:s reason:s hostIP:s podIP:s podIPs:[{ip:s}] "
     "startTime:s qosClass:s nominatedNodeName:s initContainerStatuses:[$ContainerStatus] "
     "containerStatuses:[$ContainerStatus]}"},
    {api::kinds::kPersistentVolume,
     "spec:$VolumeSpec status:{phase:s message:s reason:s lastPhaseTransitionTime:s}"},
    {api::kinds::kPersistentVolumeClaim,
     "spec:$ClaimSpec "
     "status:{phase:s accessModes:[s] capacity:<q> conditions:[$Condition] allocatedResources:<q> "
     "allocatedResourceStatuses:<s> currentVolumeAttributesClassName:s}"},
    {api::kinds::kSecret, "data:<s> stringData:<s> type:s immutable:b"},
    {api::kinds::kConfigMap, "data:<s> binaryData:<s> immutable:b"},
    {api::kinds::kServiceAccount,
     "secrets:[$ObjectRef] imagePullSecrets:[$LocalRef] automountServiceAccountToken:b"},
    {api::kinds::kEvent,
     "involvedObject:$ObjectRef related:$ObjectRef reason:s message:s "
     "source:{component:s host:s} firstTimestamp:s lastTimestamp:s count:i type:s eventTime:s "
     "series:{count:i lastObservedTime:s} action:s reportingComponent:s reportingInstance:s"},
    {api::kinds::kLease,
     "spec:{holderIdentity:s leaseDurationSeconds:i acquireTime:s renewTime:s leaseTransitions:i}"},
    {api::kinds::kStorageClass,
     "provisioner:s parameters:<s> reclaimPolicy:s mountOptions:[s] allowVolumeExpansion:b "
     "volumeBindingMode:s "
     "allowedTopologies:[{matchLabelExpressions:[{key:s values:[s]}]}]"},
    {api::kinds::kVolumeAttachment,
     "spec:{attacher:s nodeName:s source:{persistentVolumeName:s inlineVolumeSpec:$VolumeSpec}} "
     "status:{attached:b attachmentMetadata:<s> attachError:$AttachError "
     "detachError:$AttachError}"},
    {api::kinds::kCsiNode,
     "spec:{drivers:[{name:s nodeID:s topologyKeys:[s] allocatable:{count:i}}]}"},
    {api::kinds::kCsiDriver,
     "spec:{attachRequired:b podInfoOnMount:b volumeLifecycleModes:[s] storageCapacity:b "
     "fsGroupPolicy:s tokenRequests:[{audience:s expirationSeconds:i}] requiresRepublish:b "
     "seLinuxMount:b}"},
    {api::kinds::kCsiStorageCapacity,
     "nodeTopology:$LabelSelector storageClassName:s capacity:q maximumVolumeSize:q"},
    {api::kinds::kHostMount,
     "spec:{nodeName:s claimName:s path:s readOnly:b} "
     "status:{phase:s message:s conditions:[$Condition]}"},
};

struct Type;
using TypePtr = std::shared_ptr<const Type>;
struct Type {
  char letter = 'x';  // of the notation; '{', '[' and '<' for the compound ones
  std::map<std::string, TypePtr, std::less<>> fields;
  TypePtr element;
};

// Reads the notation. The texts are this file's own: a mistake in one shows in the first test.
class Reader {
 public:
  TypePtr Named(std::string_view name) {
    if (const auto it = named_.find(name); it != named_.end()) return it->second;
    const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                     [&](const NamedType& type) { return type.name == name; });
    TypePtr type = found != std::end(kTypes) ? Parse(found->text) : nullptr;
    named_.emplace(name, type);
    return type;
  }

  TypePtr Parse(std::string_view text) {
    std::string_view rest = text;
    return ParseType(rest);
  }

 private:
  TypePtr ParseType(std::string_view& rest) {
    auto type = std::make_shared<Type>();
    type->letter = rest.front();
    rest.remove_prefix(1);
    switch (type->letter) {
      case '$': {
        const size_t end = std::min(rest.find_first_of(" ]>}"), rest.size());
        TypePtr named = Named(rest.substr(0, end));
        rest.remove_prefix(end);
        return named;
      }
      case '[':
      case '<':
        type->element = ParseType(rest);
        rest.remove_prefix(1);
        break;
      case '{':
        while (rest.front() != '}') {
          const size_t colon = rest.find(':');
          const std::string field(rest.substr(0, colon));
          rest.remove_prefix(colon + 1);
          type->fields.emplace(field, ParseType(rest));
          if (rest.front() == ' ') rest.remove_prefix(1);
        }
        rest.remove_prefix(1);
        break;
      default:
        break;
    }
    return type;
  }

  std::map<std::string, TypePtr, std::less<>> named_;
};

const Type& TypeOf(const api::KindInfo& info) {
  static const auto all = [] {
    Reader reader;
    std::map<const api::KindInfo*, TypePtr> types;
    for (const KindType& kind : kKinds) {
      types.emplace(&kind.info, reader.Parse(fmt::format(
                                    "{{apiVersion:s kind:s metadata:$Meta {}}}", kind.text)));
    }
    types.emplace(nullptr, reader.Parse("{apiVersion:s kind:s metadata:$Meta}"));
    return types;
  }();
  const auto it = all.find(&info);
  return *(it != all.end() ? it : all.find(nullptr))->second;
}

std::string_view GoName(char letter) {
  switch (letter) {
    case 's':
      return "string";
    case 'i':
      return "int64";
    case 'b':
      return "bool";
    case 'q':
      return "resource.Quantity";
    case 'o':
      return "intstr.IntOrString";
    case '[':
      return "array";
    case '<':
      return "map";
    default:
      return "object";
  }
}

bool Fits(const Type& type, const Json& value) {
  switch (type.letter) {
    case 's':
      return value.is_string();
    case 'i':
      return value.is_number_integer();
    case 'b':
      return value.is_boolean();
    case 'q':
      return value.is_string() || value.is_number();
    case 'o':
      return value.is_string() || value.is_number_integer();
    case '[':
      return value.is_array();
    case '<':
    case '{':
      return value.is_object();
    default:
      return true;
  }
}

// The path and type of the first member that does not fit; nullopt if all do.
struct Misfit {
  std::string path;
  std::string_view found;
  std::string_view wanted;
};

std::optional<Misfit> Check(const Type& type, const Json& value, const std::string& path) {
  if (!Fits(type, value)) return Misfit{path, value.type_name(), GoName(type.letter)};
  if (type.element) {
    for (const auto& [key, item] : value.items()) {
      const std::string at = type.letter == '[' ? path : fmt::format("{}.{}", path, key);
      if (auto misfit = Check(*type.element, item, at)) return misfit;
    }
  }
  for (const auto& [field, field_type] : type.fields) {
    const auto it = value.find(field);
    if (it == value.end()) continue;
    if (auto misfit = Check(*field_type, *it, fmt::format("{}.{}", path, field))) return misfit;
  }
  return std::nullopt;
}

}  // namespace

Status CheckTypes(const api::KindInfo& info, const Json& object) {
  const auto misfit = Check(TypeOf(info), object, std::string(info.kind));
  if (!misfit) return base::OkStatus();
  return KubeError(
      Reason::kBadRequest,
      fmt::format("{} in version \"{}\" cannot be handled as a {}: json: cannot unmarshal "
                  "{} into Go struct field {} of type {}",
                  info.kind, info.version, info.kind, misfit->found, misfit->path, misfit->wanted));
}

}  // namespace berth::apiserver
