// The records of sandboxes and their volumes, in one file for each sandbox (crust/paths.h). A
// record is written durably before the step that it describes.
//
//   a volume:  [publishing] ──▶ [published] ──▶ [unpublishing] ──▶ gone
//                 │    ▲
//                 ▼    │
//              [failed]: for certain nothing of it is mounted; the others may be
//
// A record says what may exist; the sandbox says what does (docs/design.md, rule 2). Records of
// another boot describe volumes that are gone, and are dropped when they are loaded. Mount options
// are kept, because a lost mount must be made again; only root can read the files. Thread-safe for
// different sandboxes.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crust/mount_plan.h"
#include "platform/mounts/mount_paths.h"

namespace berth::crust {

enum class VolumeState { kPublishing, kFailed, kPublished, kUnpublishing };

struct VolumeRecord {
  std::string host_volume_id;   // as the node agent calls it
  platform::TargetPath target;  // the host does not mount the volume there
  VolumeState state = VolumeState::kPublishing;
  MountPlan plan;
  // In a pod's record: a sandbox that gets the volume grows its file system to the device's size.
  bool grow = false;
};

struct SandboxRecord {
  std::string sandbox_id;
  api::PodUid pod_uid;
  std::string bundle;  // the folder of its container; the sandbox has ended if the folder is gone
  std::string boot_id;
  bool ending = false;  // it has ended, and its volumes are being unpublished
  std::vector<VolumeRecord> volumes;

  // Finds a volume by its target path; nullptr: there is none.
  VolumeRecord* FindTarget(const platform::TargetPath& target);
  // Finds a volume by the node agent's name for it; nullptr: there is none.
  const VolumeRecord* FindVolume(std::string_view host_volume_id) const;
};

// The list of volumes in a record, also in that of a pod (pods/pod_records.h).
base::Json EncodeVolumes(const std::vector<VolumeRecord>& volumes);
// DATA_LOSS: it is no such list.
base::StatusOr<std::vector<VolumeRecord>> DecodeVolumes(const base::Json& list);

std::string Encode(const SandboxRecord& record);
// Reads what Encode returned. DATA_LOSS: the text is not such a record.
base::StatusOr<SandboxRecord> DecodeSandboxRecord(std::string_view text);

class SandboxRecords {
 public:
  // `folder` is made if missing.
  static base::StatusOr<SandboxRecords> Open(std::string folder);

  struct Loaded {
    std::vector<SandboxRecord> records;   // those of this boot
    std::vector<std::string> unreadable;  // ids of sandboxes of any boot; logged
  };
  // Reads all records, and removes those of other boots.
  base::StatusOr<Loaded> LoadRecords() const;
  // Sets the record's boot id and writes the record durably.
  base::Status WriteRecord(SandboxRecord& record) const;
  // OK if there is no record.
  base::Status RemoveRecord(const std::string& sandbox_id) const;

 private:
  SandboxRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  std::string Path(const std::string& id) const { return folder_ + "/" + id + ".json"; }

  std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::crust
