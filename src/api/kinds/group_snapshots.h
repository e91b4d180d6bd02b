// The kinds of groupsnapshot.storage.k8s.io/v1, which a CustomResourceDefinition defines
// (deploy/crds): snapshots of several volumes that are taken at one time. The classes are like
// those in snapshots.h.
#pragma once

#include "api/kinds/snapshots.h"

namespace berth::api {

namespace kinds {
extern const KindInfo kVolumeGroupSnapshotClass, kVolumeGroupSnapshotContent, kVolumeGroupSnapshot;
}  // namespace kinds

inline constexpr std::string_view kGroupSnapshotGroup = "groupsnapshot.storage.k8s.io";

class VolumeGroupSnapshotClass : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeGroupSnapshotClass;
  using Object::Object;
  std::string driver() const { return String({"driver"}); }
  std::string deletion_policy() const { return String({"deletionPolicy"}); }
  Labels parameters() const { return StringMap({"parameters"}); }
};

class VolumeGroupSnapshotContent : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeGroupSnapshotContent;
  using Object::Object;
  std::string driver() const { return String({"spec", "driver"}); }
  std::string deletion_policy() const { return String({"spec", "deletionPolicy"}); }
  bool delete_with_group() const { return deletion_policy() == "Delete"; }
  std::string class_name() const { return String({"spec", "volumeGroupSnapshotClassName"}); }
  // The volumes of which the driver takes snapshots, or a group snapshot that exists already
  // (existing). Exactly one of the two is there.
  std::vector<std::string> source_volume_handles() const {
    return Strings({"spec", "source", "volumeHandles"});
  }
  bool existing() const {
    return base::json::Find(json(), {"spec", "source", "groupSnapshotHandles"}) != nullptr;
  }
  std::string source_group_handle() const {
    return String({"spec", "source", "groupSnapshotHandles", "volumeGroupSnapshotHandle"});
  }
  std::vector<std::string> source_snapshot_handles() const {
    return Strings({"spec", "source", "groupSnapshotHandles", "volumeSnapshotHandles"});
  }
  std::string group_namespace() const {
    return String({"spec", "volumeGroupSnapshotRef", "namespace"});
  }
  std::string group_name() const { return String({"spec", "volumeGroupSnapshotRef", "name"}); }
  std::string group_uid() const { return String({"spec", "volumeGroupSnapshotRef", "uid"}); }
  std::string group_key() const { return ObjectKey(group_namespace(), group_name()); }

  bool has_status() const { return base::json::Find(json(), {"status"}) != nullptr; }
  // The driver's group snapshot; empty until the driver gave one, and after it deleted it.
  std::string group_handle() const { return String({"status", "volumeGroupSnapshotHandle"}); }
  bool ready() const { return Bool({"status", "readyToUse"}); }
  std::string creation_time() const { return String({"status", "creationTime"}); }
  std::string error() const { return String({"status", "error", "message"}); }
  // What the driver said of each snapshot when it took them: volumeHandle, snapshotHandle, and
  // creationTime, restoreSize and readyToUse as far as they are known. It stays after the group
  // snapshot was deleted.
  const Json& snapshot_infos() const {
    return base::json::Array(json(), {"status", "volumeSnapshotInfoList"});
  }
};

class VolumeGroupSnapshot : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeGroupSnapshot;
  using Object::Object;
  // "" asks for the default class.
  std::string class_name() const { return String({"spec", "volumeGroupSnapshotClassName"}); }
  // The LabelSelector of the claims of the same namespace; nullptr: a group snapshot that exists.
  const Json* selector() const { return base::json::Find(json(), {"spec", "source", "selector"}); }
  // The content of a group snapshot that exists; "" if the claims are selected.
  std::string source_content() const {
    return String({"spec", "source", "volumeGroupSnapshotContentName"});
  }
  std::string content_name() const {
    return String({"status", "boundVolumeGroupSnapshotContentName"});
  }
  bool ready() const { return Bool({"status", "readyToUse"}); }
  std::string creation_time() const { return String({"status", "creationTime"}); }
  std::string error() const { return String({"status", "error", "message"}); }
};

// The name of the group that owns the snapshot, by its ownerReferences; "" if no group owns it.
std::string OwningGroup(const VolumeSnapshot& snapshot);
// The uid in the same ownerReference; "" if there is none.
std::string OwningGroupUid(const VolumeSnapshot& snapshot);

}  // namespace berth::api
