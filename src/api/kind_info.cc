#include "api/kind_info.h"

#include <fmt/format.h>

#include <array>

#include "api/names.h"

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
constexpr std::string_view kAuthentication = "authentication.k8s.io";
constexpr std::string_view kAuthorization = "authorization.k8s.io";

KindInfo MakeReview(std::string_view group, std::string_view kind, std::string_view plural,
                    std::string_view singular, bool namespaced = false) {
  return {.group = group,
          .version = "v1",
          .kind = kind,
          .plural = plural,
          .singular = singular,
          .namespaced = namespaced,
          .review = true};
}
}  // namespace

const KindInfo kNamespace{.group = "",
                          .version = "v1",
                          .kind = "Namespace",
                          .plural = "namespaces",
                          .singular = "namespace",
                          .short_names = {"ns"},
                          .has_status = true};
const KindInfo kNode{.group = "",
                     .version = "v1",
                     .kind = "Node",
                     .plural = "nodes",
                     .singular = "node",
                     .short_names = {"no"},
                     .has_status = true};
const KindInfo kPod{.group = "",
                    .version = "v1",
                    .kind = "Pod",
                    .plural = "pods",
                    .singular = "pod",
                    .short_names = {"po"},
                    .namespaced = true,
                    .has_status = true,
                    .categories = {"all"}};
const KindInfo kPersistentVolume{.group = "",
                                 .version = "v1",
                                 .kind = "PersistentVolume",
                                 .plural = "persistentvolumes",
                                 .singular = "persistentvolume",
                                 .short_names = {"pv"},
                                 .has_status = true};
const KindInfo kPersistentVolumeClaim{.group = "",
                                      .version = "v1",
                                      .kind = "PersistentVolumeClaim",
                                      .plural = "persistentvolumeclaims",
                                      .singular = "persistentvolumeclaim",
                                      .short_names = {"pvc"},
                                      .namespaced = true,
                                      .has_status = true};
const KindInfo kSecret{.group = "",
                       .version = "v1",
                       .kind = "Secret",
                       .plural = "secrets",
                       .singular = "secret",
                       .namespaced = true};
const KindInfo kConfigMap{.group = "",
                          .version = "v1",
                          .kind = "ConfigMap",
                          .plural = "configmaps",
                          .singular = "configmap",
                          .short_names = {"cm"},
                          .namespaced = true};
const KindInfo kServiceAccount{.group = "",
                               .version = "v1",
                               .kind = "ServiceAccount",
                               .plural = "serviceaccounts",
                               .singular = "serviceaccount",
                               .short_names = {"sa"},
                               .namespaced = true};
const KindInfo kEndpoints{.group = "",
                          .version = "v1",
                          .kind = "Endpoints",
                          .plural = "endpoints",
                          .singular = "endpoints",
                          .short_names = {"ep"},
                          .namespaced = true};
const KindInfo kEvent{.group = "",
                      .version = "v1",
                      .kind = "Event",
                      .plural = "events",
                      .singular = "event",
                      .short_names = {"ev"},
                      .namespaced = true};
const KindInfo kEventsEvent{.group = "events.k8s.io",
                            .version = "v1",
                            .kind = "Event",
                            .plural = "events",
                            .singular = "event",
                            .short_names = {"ev"},
                            .namespaced = true,
                            .stored_as = &kEvent};
const KindInfo kLease{.group = "coordination.k8s.io",
                      .version = "v1",
                      .kind = "Lease",
                      .plural = "leases",
                      .singular = "lease",
                      .namespaced = true};
const KindInfo kStorageClass{.group = kStorage,
                             .version = "v1",
                             .kind = "StorageClass",
                             .plural = "storageclasses",
                             .singular = "storageclass",
                             .short_names = {"sc"}};
const KindInfo kVolumeAttachment{.group = kStorage,
                                 .version = "v1",
                                 .kind = "VolumeAttachment",
                                 .plural = "volumeattachments",
                                 .singular = "volumeattachment",
                                 .has_status = true};
const KindInfo kCsiNode{.group = kStorage,
                        .version = "v1",
                        .kind = "CSINode",
                        .plural = "csinodes",
                        .singular = "csinode"};
const KindInfo kCsiDriver{.group = kStorage,
                          .version = "v1",
                          .kind = "CSIDriver",
                          .plural = "csidrivers",
                          .singular = "csidriver"};
const KindInfo kCsiStorageCapacity{.group = kStorage,
                                   .version = "v1",
                                   .kind = "CSIStorageCapacity",
                                   .plural = "csistoragecapacities",
                                   .singular = "csistoragecapacity",
                                   .namespaced = true};
const KindInfo kVolumeAttributesClass{.group = kStorage,
                                      .version = "v1",
                                      .kind = "VolumeAttributesClass",
                                      .plural = "volumeattributesclasses",
                                      .singular = "volumeattributesclass",
                                      .short_names = {"vac"}};
const KindInfo kRuntimeClass{.group = "node.k8s.io",
                             .version = "v1",
                             .kind = "RuntimeClass",
                             .plural = "runtimeclasses",
                             .singular = "runtimeclass"};
const KindInfo kDaemonSet{.group = "apps",
                          .version = "v1",
                          .kind = "DaemonSet",
                          .plural = "daemonsets",
                          .singular = "daemonset",
                          .short_names = {"ds"},
                          .namespaced = true,
                          .has_status = true,
                          .categories = {"all"}};
const KindInfo kControllerRevision{.group = "apps",
                                   .version = "v1",
                                   .kind = "ControllerRevision",
                                   .plural = "controllerrevisions",
                                   .singular = "controllerrevision",
                                   .namespaced = true};
const KindInfo kCustomResourceDefinition{.group = "apiextensions.k8s.io",
                                         .version = "v1",
                                         .kind = "CustomResourceDefinition",
                                         .plural = "customresourcedefinitions",
                                         .singular = "customresourcedefinition",
                                         .short_names = {"crd", "crds"},
                                         .has_status = true,
                                         .categories = {"api-extensions"}};
const KindInfo kApiService{.group = "apiregistration.k8s.io",
                           .version = "v1",
                           .kind = "APIService",
                           .plural = "apiservices",
                           .singular = "apiservice",
                           .has_status = true,
                           .read_only = true,
                           .categories = {"api-extensions"}};
const KindInfo kHostMount{.group = "storage.berth.dev",
                          .version = "v1alpha1",
                          .kind = "HostMount",
                          .plural = "hostmounts",
                          .singular = "hostmount",
                          .short_names = {"hm"},
                          .namespaced = true,
                          .has_status = true};
const KindInfo kTokenReview =
    MakeReview(kAuthentication, "TokenReview", "tokenreviews", "tokenreview");
const KindInfo kSelfSubjectReview =
    MakeReview(kAuthentication, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview");
const KindInfo kSubjectAccessReview = MakeReview(kAuthorization, "SubjectAccessReview",
                                                 "subjectaccessreviews", "subjectaccessreview");
const KindInfo kLocalSubjectAccessReview =
    MakeReview(kAuthorization, "LocalSubjectAccessReview", "localsubjectaccessreviews",
               "localsubjectaccessreview", true);
const KindInfo kSelfSubjectAccessReview =
    MakeReview(kAuthorization, "SelfSubjectAccessReview", "selfsubjectaccessreviews",
               "selfsubjectaccessreview");
const KindInfo kSelfSubjectRulesReview = MakeReview(
    kAuthorization, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview");
}  // namespace kinds

std::span<const KindInfo* const> BuiltInKinds() {
  using namespace kinds;
  static constexpr std::array<const KindInfo*, 30> kAll = {&kNamespace,
                                                           &kNode,
                                                           &kPod,
                                                           &kPersistentVolume,
                                                           &kPersistentVolumeClaim,
                                                           &kSecret,
                                                           &kConfigMap,
                                                           &kServiceAccount,
                                                           &kEndpoints,
                                                           &kEvent,
                                                           &kEventsEvent,
                                                           &kLease,
                                                           &kStorageClass,
                                                           &kVolumeAttachment,
                                                           &kCsiNode,
                                                           &kCsiDriver,
                                                           &kCsiStorageCapacity,
                                                           &kVolumeAttributesClass,
                                                           &kRuntimeClass,
                                                           &kDaemonSet,
                                                           &kControllerRevision,
                                                           &kCustomResourceDefinition,
                                                           &kApiService,
                                                           &kHostMount,
                                                           &kTokenReview,
                                                           &kSelfSubjectReview,
                                                           &kSubjectAccessReview,
                                                           &kLocalSubjectAccessReview,
                                                           &kSelfSubjectAccessReview,
                                                           &kSelfSubjectRulesReview};
  return kAll;
}

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

const KindInfo* FindKindByWord(std::string_view word) {
  std::string lower = LowerCase(word);
  std::string group;
  const size_t dot = lower.find('.');
  const bool with_group = dot != std::string::npos;
  if (with_group) {
    group = lower.substr(dot + 1);
    lower.resize(dot);
  }
  for (const KindInfo* info : BuiltInKinds()) {
    if (with_group && group != info->group) continue;
    if (lower == info->plural || lower == info->singular) return info;
    for (const std::string_view name : info->short_names) {
      if (lower == name) return info;
    }
  }
  return nullptr;
}

const KindInfo* FindKind(std::string_view api_version, std::string_view kind) {
  for (const KindInfo* info : BuiltInKinds()) {
    if (info->kind == kind && info->api_version() == api_version) return info;
  }
  return nullptr;
}

}  // namespace berth::api
