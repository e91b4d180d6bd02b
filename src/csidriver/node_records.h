// Records where this node has staged and published each volume. A record is durable before the step
// that it describes is taken.
//
// Each volume has one file in the pool's node folder (block/pools/pool_paths.h). A record names the
// mounts and the device that may exist; it is compared with the mount table and the loop devices,
// which show those that do exist (docs/design.md, rule 2). Records of another boot describe mounts
// that are gone, so they are removed at open. Of the mount flags, which may be sensitive, only a
// digest is recorded.
//
// Thread-safe. A caller that changes a volume's record must hold that volume's lock
// (block::Pool::LockVolume).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "block/record.h"
#include "platform/mounts/mount_paths.h"

namespace berth::csidriver {

struct PublishedTarget {
  platform::TargetPath path;
  bool read_only = false;
  std::string capability;  // Capability::Digest
  // A container runtime mounts the volume for this target, and this host mounts nothing there.
  bool deferred = false;
  bool operator==(const PublishedTarget&) const = default;
};

// The user that got a volume's device since its file system was last prepared. It stays kNone for
// raw block volumes, because they are never prepared.
enum class DeviceUse {
  kNone,      // no user
  kMounted,   // this host, which mounted it
  kDeferred,  // a container runtime; it has the device still if the device cannot be detached
};

struct NodeRecord {
  std::string volume_id;
  std::string boot_id;
  // An inline volume has its target path here, because it is not staged.
  platform::StagingPath staging_path;
  std::string capability;  // Capability::Digest of the staging
  block::AccessType access = block::AccessType::kMount;
  DeviceUse use = DeviceUse::kNone;
  std::vector<PublishedTarget> targets;

  // nullptr: there is none. The result is valid until `targets` changes.
  const PublishedTarget* FindTarget(const platform::TargetPath& path) const;
};

std::string Encode(const NodeRecord& record);
// DATA_LOSS for text that is not a whole record of this version.
base::StatusOr<NodeRecord> DecodeNodeRecord(std::string_view text);

class NodeRecords {
 public:
  // Reads the records in `folder`, which is made if missing. A damaged record is set aside, so that
  // the other volumes can be served. The mount table still shows its volume's mounts.
  static base::StatusOr<std::unique_ptr<NodeRecords>> Open(const std::string& folder);

  std::optional<NodeRecord> Get(const std::string& volume_id) const;
  // Writes the record durably, with the boot id of this boot.
  base::Status Put(NodeRecord record);
  // Like Put, for a record that only lost targets: a full disk is logged and is not an error, so
  // that pods can still end. The file then names too many targets, but Presence::FindTargets gives
  // only those that exist.
  base::Status PutWithFewerTargets(NodeRecord record);
  base::Status Remove(const std::string& volume_id);

  // The most targets that a volume may have on this node at once. A CO that asks for more probably
  // has a bug.
  static constexpr size_t kMaxTargets = 1024;

 private:
  NodeRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  base::Status LoadRecords();
  std::string PathOf(const std::string& volume_id) const {
    return folder_ + "/" + volume_id + ".json";
  }

  const std::string folder_;
  const std::string boot_id_;
  mutable base::Mutex mutex_;
  std::map<std::string, NodeRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::csidriver
