// The table of the built-in kinds, with one row for each. The API server serves them, clients build
// URLs from the rows, and the command line finds the kinds by name. Kinds that come from a
// CustomResourceDefinition are not in it (kinds/snapshots.h, kinds/block_kinds.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::api {

struct KindInfo {
  std::string_view group;  // "" is the core group
  std::string_view version;
  std::string_view kind;
  std::string_view plural;  // the resource name in URLs
  std::string_view singular;
  std::vector<std::string_view> short_names = {};
  bool namespaced = false;
  bool has_status = false;  // serves the /status subresource
  bool read_only = false;   // the server alone writes its objects
  // It is a question and not an object: a client can only create it; the server answers it at once
  // and never stores it.
  bool review = false;
  std::vector<std::string_view> categories = {};  // "all": part of `kubectl get all`
  // The kind as which its objects are stored, so that both kinds have the same objects; null: it is
  // stored as itself.
  const KindInfo* stored_as = nullptr;

  // "v1" or "storage.k8s.io/v1".
  std::string api_version() const;
  // "/api/v1" or "/apis/storage.k8s.io/v1".
  std::string url_prefix() const;
  // "/api/v1/namespaces/NS/pods" with `ns`, "/api/v1/pods" without.
  std::string url(std::string_view ns) const;
  // The resource as error messages name it: "pods" or "storageclasses.storage.k8s.io".
  std::string group_resource() const;
  // The kind as which its objects are stored.
  const KindInfo& stored() const { return stored_as != nullptr ? *stored_as : *this; }
};

namespace kinds {
extern const KindInfo kNamespace, kNode, kPod, kPersistentVolume, kPersistentVolumeClaim, kSecret,
    kConfigMap, kServiceAccount, kEndpoints, kEvent, kEventsEvent, kLease, kStorageClass,
    kVolumeAttachment, kCsiNode, kCsiDriver, kCsiStorageCapacity, kVolumeAttributesClass,
    kRuntimeClass, kDaemonSet, kControllerRevision, kCustomResourceDefinition, kApiService,
    kHostMount;
// Reviews.
extern const KindInfo kTokenReview, kSelfSubjectReview, kSubjectAccessReview,
    kLocalSubjectAccessReview, kSelfSubjectAccessReview, kSelfSubjectRulesReview;
}  // namespace kinds

// The built-in kinds.
std::span<const KindInfo* const> BuiltInKinds();

// The group of an apiVersion: "storage.k8s.io" for "storage.k8s.io/v1"; "" (the core group) for
// "v1".
std::string_view GroupOf(std::string_view api_version);

// Finds a built-in kind by its plural, singular, short name or kind, as a person types it: "pvc",
// "pods", "storageclass", "csinodes.storage.k8s.io". Case is ignored; a ".GROUP" may follow the
// word. nullptr: no built-in kind has this name.
const KindInfo* FindKindByWord(std::string_view word);

// Finds a built-in kind by the apiVersion and kind of an object; nullptr if there is none.
const KindInfo* FindKind(std::string_view api_version, std::string_view kind);

}  // namespace berth::api
