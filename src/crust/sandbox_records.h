// What the handler must remember of a sandbox, in one file for each (crust/paths.h). A record is
// durable before the step is taken.
//
//   a volume:  [publishing] ──▶ [published] ──▶ [unpublishing] ──▶ gone
//                 │    ▲
//                 ▼    │
//              [failed]: for certain nothing of it is mounted; the others may be
//
// A record says what may exist; the sandbox says what does (DESIGN, rule 2). Records of another
// boot describe what is gone, and are dropped when they are loaded. Mount options are kept, because
// a lost mount must be made again; only root can read the files. Thread-safe for different
// sandboxes.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "crust/mount_plan.h"

namespace berth::crust {

enum class VolumeState { kPublishing, kFailed, kPublished, kUnpublishing };

struct VolumeRecord {
  std::string host_volume_id;  // as the node agent calls it
  std::string target;          // where it would be mounted on the host
  VolumeState state = VolumeState::kPublishing;
  MountPlan plan;
};

struct SandboxRecord {
  std::string sandbox_id;
  std::string pod_uid;
  std::string bundle;  // its container's folder; if that is gone, so is the sandbox
  std::string boot_id;
  bool ending = false;  // it has ended, and its volumes are being taken off
  std::vector<VolumeRecord> volumes;

  VolumeRecord* FindTarget(std::string_view target);
  // Finds a volume by the node agent's name for it; nullptr: there is none.
  const VolumeRecord* FindVolume(std::string_view host_volume_id) const;
};

std::string Encode(const SandboxRecord& record);
// DATA_LOSS: it is not what Encode writes.
base::StatusOr<SandboxRecord> DecodeSandboxRecord(std::string_view text);

class SandboxRecords {
 public:
  // `folder` is made if missing.
  static base::StatusOr<SandboxRecords> Open(std::string folder);

  struct Loaded {
    std::vector<SandboxRecord> records;   // those of this boot
    std::vector<std::string> unreadable;  // ids of sandboxes of any boot; logged
  };
  base::StatusOr<Loaded> Load() const;
  // Fills in the boot id.
  base::Status Write(SandboxRecord& record) const;
  base::Status Remove(const std::string& sandbox_id) const;

 private:
  SandboxRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  std::string Path(const std::string& id) const { return folder_ + "/" + id + ".json"; }

  std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::crust
