// The kinds of the block agent, which CustomResourceDefinitions define (deploy/crds): the users of
// a volume, the volumes that a node must still detach, the storage clusters with the volumes, and
// the snapshots of volumes. The classes are like those in kinds.h, but are not in the table of
// built-in kinds.
//
// All but snapshots are cluster-scoped, so that pods of any namespace can use volumes without a
// copy of a secret. A snapshot is in the namespace of its claim, as whose data it holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"

namespace berth::api {

namespace kinds {
extern const KindInfo kVolumeFence, kNodeCleanup, kStorageCluster, kBlockSnapshot;
}  // namespace kinds

inline constexpr std::string_view kBlockGroup = "storage.berth.dev";
// The Flexvolume driver of PersistentVolumes, and the provisioner of their classes.
inline constexpr std::string_view kBlockDriver = "berth.dev/block";
inline constexpr std::string_view kBlockProvisioner = "block.berth.dev";
// Options of a PersistentVolume's flexVolume: the StorageCluster and the image in it.
inline constexpr std::string_view kClusterOption = "cluster";
inline constexpr std::string_view kImageOption = "image";
// The finalizer that keeps a StorageCluster as long as a node has a volume of it.
inline constexpr std::string_view kClusterFinalizer = "storage.berth.dev/cluster-cleanup";
// The finalizer that keeps a BlockSnapshot as long as its snapshot may exist in the storage.
inline constexpr std::string_view kSnapshotFinalizer = "storage.berth.dev/snapshot";

// VolumeFence.attachments[]: one pod that may use the volume.
struct FenceEntry {
  std::string node;
  std::string pod_namespace;
  std::string pod;
  std::string pod_uid;
  std::string mount_dir;  // absolute, on that node
  bool read_only = false;
  std::string cluster_name;  // the StorageCluster

  static FenceEntry From(const Json& json);
  Json ToJson() const;
  // Whether both entries are the same use of the volume. Pods are told apart by their uid, because
  // a new pod may have the name of an old one.
  bool IsSameUse(const FenceEntry& other) const {
    return node == other.node && pod_uid == other.pod_uid && mount_dir == other.mount_dir;
  }
  bool operator==(const FenceEntry&) const = default;
};

// The pods that may use a volume. Its name is the PersistentVolume's. It does not exist while no
// pod may use the volume.
class VolumeFence : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeFence;
  using Object::Object;
  std::vector<FenceEntry> entries() const;
  void set_entries(const std::vector<FenceEntry>& entries);
};

// NodeCleanup.entries[]: an attachment of the node, whose volume the node must detach.
struct CleanupEntry {
  std::string volume;  // the PersistentVolume's name
  FenceEntry attachment;
  std::string cluster_name;
  std::string image;
  std::string device_path;  // the last one known; empty: none
  std::string reason;       // for people

  static CleanupEntry From(const Json& json);
  Json ToJson() const;
  bool operator==(const CleanupEntry&) const = default;
};

// The volumes that the agent of a node must detach. Its name is the Node's.
class NodeCleanup : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kNodeCleanup;
  using Object::Object;
  std::vector<CleanupEntry> entries() const;
  void set_entries(const std::vector<CleanupEntry>& entries);
};

// A back end and its settings. spec.backend has one member, whose name is the type of the back end.
class StorageCluster : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kStorageCluster;
  using Object::Object;
  // spec.backend, as block::BackendSettings reads it.
  const Json* backend() const { return base::json::Find(json(), {"spec", "backend"}); }
  // spec.cleanup.claims: whether the cluster's claims are deleted with it.
  bool deletes_claims() const {
    return String({"spec", "cleanup", "claims"}, "Retain") == "Delete";
  }
  // How long a forced unmap may take before its utility is sent SIGINT.
  int64_t unmap_timeout_seconds() const {
    return Int({"spec", "cleanup", "unmapTimeoutSeconds"}, 30);
  }
};

// A snapshot of the volume of a claim. The block operator alone writes its status, so a claim that
// is restored from it gets what the operator made and no image that a person named.
class BlockSnapshot : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kBlockSnapshot;
  using Object::Object;
  std::string claim_name() const { return String({"spec", "persistentVolumeClaimName"}); }
  // The operator writes these before it makes the snapshot. The cluster is "" until then.
  std::string cluster() const { return String({"status", "clusterName"}); }
  std::string volume_name() const { return String({"status", "volumeName"}); }
  std::string image() const { return String({"status", "image"}); }
  std::string fs_type() const { return String({"status", "fsType"}); }
  // The operator writes these after it has made the snapshot, or could not make it.
  bool ready() const { return base::json::Bool(json(), {"status", "readyToUse"}); }
  // The least size of a volume that is restored from it, a quantity.
  std::string restore_size() const { return String({"status", "restoreSize"}); }
  std::string snapshot() const { return String({"status", "snapshot"}); }
  std::string error() const { return String({"status", "error", "message"}); }
};

}  // namespace berth::api
