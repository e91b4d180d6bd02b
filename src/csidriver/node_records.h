// Records what this node does with each volume. A record is durable before the step is taken.
//
// One file a volume in the pool's node folder (block/pools/pool_paths.h). A record says what may
// exist; what does exist is in the mount table and in the loop devices, and the two are compared
// (DESIGN, rule 2). Records of another boot describe mounts that are gone: they are dropped at
// open. Mount flags, which may be sensitive, are kept as a digest.
//
// Thread-safe. A caller that changes a volume's record must hold that volume's lock
// (block::Pool::Lock).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "block/record.h"

namespace berth::csidriver {

struct PublishedTarget {
  std::string path;
  bool read_only = false;
  std::string capability;  // Capability::Digest
  // A container runtime mounts the volume for it, and nothing is mounted there on this host.
  bool deferred = false;
  bool operator==(const PublishedTarget&) const = default;
};

// Who got a volume's device since its file system was last prepared. It stays kNone for raw block
// volumes, because they are never prepared.
enum class DeviceUse {
  kNone,      // nobody
  kMounted,   // this host
  kDeferred,  // a container runtime; only the device can tell whether the runtime still has it
};

struct NodeRecord {
  std::string volume_id;
  std::string boot_id;
  std::string staging_path;
  std::string capability;  // Capability::Digest of the staging
  block::AccessType access = block::AccessType::kMount;
  DeviceUse use = DeviceUse::kNone;
  std::vector<PublishedTarget> targets;

  const PublishedTarget* FindTarget(std::string_view path) const;
};

std::string Encode(const NodeRecord& record);
base::StatusOr<NodeRecord> DecodeNodeRecord(std::string_view text);

class NodeRecords {
 public:
  // `folder` is made if missing.
  static base::StatusOr<std::unique_ptr<NodeRecords>> Open(const std::string& folder);

  std::optional<NodeRecord> Get(const std::string& volume_id) const;
  // Writes durably; fills in the boot id.
  base::Status Put(NodeRecord record);
  // Like Put, for a record that only lost targets: a full disk is logged and is no error, so that
  // pods can still end. The file then names too many targets; presence.h compares it with what
  // exists.
  base::Status PutShorter(NodeRecord record);
  base::Status Remove(const std::string& volume_id);

  // How many targets a volume of this node may have at once; a CO that asks for more probably has a
  // bug.
  static constexpr size_t kMaxTargets = 1024;

 private:
  NodeRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  base::Status Load();
  std::string Path(const std::string& volume_id) const {
    return folder_ + "/" + volume_id + ".json";
  }

  const std::string folder_;
  const std::string boot_id_;
  mutable base::Mutex mutex_;
  std::map<std::string, NodeRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::csidriver
