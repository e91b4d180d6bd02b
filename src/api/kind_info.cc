#include "api/kind_info.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace berth::api {

std::string KindInfo::api_version() const {
  return group.empty() ? std::string(version) : fmt::format("{}/{}", group, version);
}

std::string KindInfo::url_prefix() const {
  return group.empty() ? fmt::format("/api/{}", version)
                       : fmt::format("/apis/{}/{}", group, version);
}

std::string KindInfo::url(std::string_view ns) const {
  return ns.empty() ? fmt::format("{}/{}", url_prefix(), plural)
                    : fmt::format("{}/namespaces/{}/{}", url_prefix(), ns, plural);
}

std::string KindInfo::group_resource() const {
  return group.empty() ? std::string(plural) : fmt::format("{}.{}", plural, group);
}

namespace kinds {
namespace {
constexpr std::string_view kStorage = "storage.k8s.io";
}  // namespace

const KindInfo kNamespace{"", "v1", "Namespace", "namespaces", "namespace", {"ns"}, false, true};
const KindInfo kNode{"", "v1", "Node", "nodes", "node", {"no"}, false, true};
const KindInfo kPod{"", "v1", "Pod", "pods", "pod", {"po"}, true, true};
const KindInfo kPersistentVolume{
    "", "v1", "PersistentVolume", "persistentvolumes", "persistentvolume", {"pv"}, false, true};
const KindInfo kPersistentVolumeClaim{
    "",   "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim", {"pvc"},
    true, true};
const KindInfo kSecret{"", "v1", "Secret", "secrets", "secret", {}, true, false};
const KindInfo kConfigMap{"", "v1", "ConfigMap", "configmaps", "configmap", {"cm"}, true, false};
const KindInfo kServiceAccount{
    "", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", {"sa"}, true, false};
const KindInfo kEvent{"", "v1", "Event", "events", "event", {"ev"}, true, false};
const KindInfo kLease{"coordination.k8s.io", "v1", "Lease", "leases", "lease", {}, true, false};
const KindInfo kStorageClass{kStorage,       "v1",   "StorageClass", "storageclasses",
                             "storageclass", {"sc"}, false,          false};
const KindInfo kVolumeAttachment{
    kStorage, "v1", "VolumeAttachment", "volumeattachments", "volumeattachment", {}, false, true};
const KindInfo kCsiNode{kStorage, "v1", "CSINode", "csinodes", "csinode", {}, false, false};
const KindInfo kCsiDriver{kStorage, "v1", "CSIDriver", "csidrivers", "csidriver", {}, false, false};
const KindInfo kCsiStorageCapacity{
    kStorage, "v1", "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity", {},
    true,     false};
const KindInfo kHostMount{"storage.berth.dev", "v1alpha1", "HostMount", "hostmounts",
                          "hostmount",         {"hm"},     true,        true};
}  // namespace kinds

std::span<const KindInfo* const> AllKinds() {
  using namespace kinds;
  static constexpr std::array<const KindInfo*, 16> kAll = {&kNamespace,
                                                           &kNode,
                                                           &kPod,
                                                           &kPersistentVolume,
                                                           &kPersistentVolumeClaim,
                                                           &kSecret,
                                                           &kConfigMap,
                                                           &kServiceAccount,
                                                           &kEvent,
                                                           &kLease,
                                                           &kStorageClass,
                                                           &kVolumeAttachment,
                                                           &kCsiNode,
                                                           &kCsiDriver,
                                                           &kCsiStorageCapacity,
                                                           &kHostMount};
  return kAll;
}

const KindInfo* FindKindByWord(std::string_view word) {
  std::string lower;
  for (const char c : word) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string group;
  const size_t dot = lower.find('.');
  const bool with_group = dot != std::string::npos;
  if (with_group) {
    group = lower.substr(dot + 1);
    lower.resize(dot);
  }
  for (const KindInfo* info : AllKinds()) {
    if (with_group && group != info->group) continue;
    if (lower == info->plural || lower == info->singular) return info;
    for (const std::string_view name : info->short_names) {
      if (lower == name) return info;
    }
  }
  return nullptr;
}

const KindInfo* FindKind(std::string_view api_version, std::string_view kind) {
  for (const KindInfo* info : AllKinds()) {
    if (info->kind == kind && info->api_version() == api_version) return info;
  }
  return nullptr;
}

}  // namespace berth::api
