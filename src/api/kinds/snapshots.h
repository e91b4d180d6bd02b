// The kinds of snapshot.storage.k8s.io/v1, which a CustomResourceDefinition defines (deploy/crds).
// The classes are like those in kinds.h, but the kinds are not in the table of built-in kinds.
#pragma once

#include "api/kinds/kinds.h"

namespace berth::api {

namespace kinds {
extern const KindInfo kVolumeSnapshotClass, kVolumeSnapshotContent, kVolumeSnapshot;
}  // namespace kinds

inline constexpr std::string_view kSnapshotGroup = "snapshot.storage.k8s.io";

class VolumeSnapshotClass : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeSnapshotClass;
  using Object::Object;
  std::string driver() const { return String({"driver"}); }
  std::string deletion_policy() const { return String({"deletionPolicy"}); }
  Labels parameters() const { return StringMap({"parameters"}); }
};

class VolumeSnapshotContent : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeSnapshotContent;
  using Object::Object;
  std::string driver() const { return String({"spec", "driver"}); }
  std::string deletion_policy() const { return String({"spec", "deletionPolicy"}); }
  bool delete_with_snapshot() const { return deletion_policy() == "Delete"; }
  std::string class_name() const { return String({"spec", "volumeSnapshotClassName"}); }
  // "Filesystem" or "Block"; empty: unknown.
  std::string source_volume_mode() const { return String({"spec", "sourceVolumeMode"}); }
  // The volume of which the driver makes a snapshot, or a snapshot that exists already. One of the
  // two is empty.
  std::string source_volume_handle() const { return String({"spec", "source", "volumeHandle"}); }
  std::string source_snapshot_handle() const {
    return String({"spec", "source", "snapshotHandle"});
  }
  // Whether the driver makes the snapshot.
  bool dynamic() const { return !source_volume_handle().empty(); }
  std::string snapshot_namespace() const {
    return String({"spec", "volumeSnapshotRef", "namespace"});
  }
  std::string snapshot_name() const { return String({"spec", "volumeSnapshotRef", "name"}); }
  std::string snapshot_uid() const { return String({"spec", "volumeSnapshotRef", "uid"}); }
  std::string snapshot_key() const { return ObjectKey(snapshot_namespace(), snapshot_name()); }

  bool has_status() const { return base::json::Find(json(), {"status"}) != nullptr; }
  // The driver's snapshot; empty until the driver gave one, and after it deleted it.
  std::string snapshot_handle() const { return String({"status", "snapshotHandle"}); }
  bool ready() const { return Bool({"status", "readyToUse"}); }
  bool has_creation_time() const {
    return base::json::Find(json(), {"status", "creationTime"}) != nullptr;
  }
  int64_t creation_nanoseconds() const { return Int({"status", "creationTime"}); }
  // nullopt: not known yet. 0: the driver did not give it.
  std::optional<int64_t> restore_bytes() const;
  std::string error() const { return String({"status", "error", "message"}); }
  // The handle of the group to which the snapshot belongs, with which alone it is deleted; empty:
  // it belongs to none.
  std::string group_handle() const { return String({"status", "volumeGroupSnapshotHandle"}); }
};

class VolumeSnapshot : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeSnapshot;
  using Object::Object;
  // "" asks for the default class.
  std::string class_name() const { return String({"spec", "volumeSnapshotClassName"}); }
  // The source: a claim of the same namespace, or the content of a snapshot that exists; one of the
  // two is empty.
  std::string source_claim() const {
    return String({"spec", "source", "persistentVolumeClaimName"});
  }
  std::string source_content() const {
    return String({"spec", "source", "volumeSnapshotContentName"});
  }
  std::string content_name() const { return String({"status", "boundVolumeSnapshotContentName"}); }
  bool ready() const { return Bool({"status", "readyToUse"}); }
  std::string restore_size() const { return String({"status", "restoreSize"}); }  // a quantity
  // Set as soon as there is a snapshot in the storage; empty before.
  std::string creation_time() const { return String({"status", "creationTime"}); }
  std::string error() const { return String({"status", "error", "message"}); }
  // The VolumeGroupSnapshot with which the snapshot was taken; empty: it belongs to none.
  std::string group_name() const { return String({"status", "volumeGroupSnapshotName"}); }
};

// Whether the two refer to each other, by name and by uid. Check this before a snapshot is used. A
// content that a person created has no uid until it is bound, so it is not bound for this function.
bool AreBound(const VolumeSnapshot& snapshot, const VolumeSnapshotContent& content);

}  // namespace berth::api
