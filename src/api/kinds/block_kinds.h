// The kinds of the block agent, which CustomResourceDefinitions define (deploy/crds): who uses a
// volume, which volumes a node must still take off, and the storage clusters that hold the volumes.
// They are written as those in kinds.h, but are not in the table of built-in kinds.
//
// All are cluster-scoped, so that pods of any namespace can use volumes without a copy of a secret.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"

namespace berth::api {

namespace kinds {
extern const KindInfo kVolumeFence, kNodeCleanup, kStorageCluster;
}  // namespace kinds

inline constexpr std::string_view kBlockGroup = "storage.berth.dev";
// The Flexvolume driver of PersistentVolumes, and the provisioner of their classes.
inline constexpr std::string_view kBlockDriver = "berth.dev/block";
inline constexpr std::string_view kBlockProvisioner = "block.berth.dev";
// Options of a PersistentVolume's flexVolume: the StorageCluster and the image in it.
inline constexpr std::string_view kClusterOption = "cluster";
inline constexpr std::string_view kImageOption = "image";
// The finalizer that keeps a StorageCluster until no node has a volume of it any more.
inline constexpr std::string_view kClusterFinalizer = "storage.berth.dev/cluster-cleanup";

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
  // Whether both are the same use: pods are distinguished by their uid, never by their name.
  bool IsSameUse(const FenceEntry& other) const {
    return node == other.node && pod_uid == other.pod_uid && mount_dir == other.mount_dir;
  }
  bool operator==(const FenceEntry&) const = default;
};

// Who may use a volume; its name is the PersistentVolume's. It does not exist while nobody may.
class VolumeFence : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kVolumeFence;
  using Object::Object;
  std::vector<FenceEntry> entries() const;
  void set_entries(const std::vector<FenceEntry>& entries);
};

// NodeCleanup.entries[]: an attachment of the node that must be taken off there.
struct CleanupEntry {
  std::string volume;  // the PersistentVolume's name
  FenceEntry attachment;
  std::string cluster_name;
  std::string image;
  std::string device_path;  // as last known; may be empty
  std::string reason;       // for people

  static CleanupEntry From(const Json& json);
  Json ToJson() const;
  bool operator==(const CleanupEntry&) const = default;
};

// What the agent of a node must take off; its name is the Node's.
class NodeCleanup : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kNodeCleanup;
  using Object::Object;
  std::vector<CleanupEntry> entries() const;
  void set_entries(const std::vector<CleanupEntry>& entries);
};

// A back end and its settings. spec.backend has one member, which names its type.
class StorageCluster : public Object {
 public:
  static constexpr const KindInfo& kInfo = kinds::kStorageCluster;
  using Object::Object;
  // spec.backend, as block::BackendSettings reads it.
  const Json* backend() const { return base::json::Find(json(), {"spec", "backend"}); }
  // spec.cleanup: what happens to claims when the cluster is deleted.
  bool deletes_claims() const {
    return String({"spec", "cleanup", "claims"}, "Retain") == "Delete";
  }
  // How long a forced unmap may take before its utility is sent SIGINT.
  int64_t unmap_timeout_seconds() const {
    return Int({"spec", "cleanup", "unmapTimeoutSeconds"}, 30);
  }
};

}  // namespace berth::api
