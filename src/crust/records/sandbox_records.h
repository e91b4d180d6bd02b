// The records of sandboxes and their volumes, in one file for each sandbox (boot_records.h,
// crust/paths.h).
//
//   a volume:  [publishing] ──▶ [published] ──▶ [unpublishing] ──▶ gone
//                 │    ▲
//                 ▼    │
//              [failed]: for certain nothing of it is mounted; the others may be
//
// A record says what may exist; the sandbox says what does (docs/design.md, rule 2). Mount options
// are kept, because a lost mount must be made again; only root can read the files.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/fault.h"
#include "base/status.h"
#include "crust/mount_plan.h"
#include "crust/records/boot_records.h"
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

// The list of volumes in a record, also in that of a pod (records/pod_records.h).
base::Json EncodeVolumes(const std::vector<VolumeRecord>& volumes);
// DATA_LOSS: it is no such list.
base::StatusOr<std::vector<VolumeRecord>> DecodeVolumes(const base::Json& list);

struct SandboxRecordKind {
  using Record = SandboxRecord;
  static constexpr base::FaultName kFault = "crust.sandbox_record";
  static constexpr std::string_view kName = "the sandbox's record";
  static const std::string& IdOf(const SandboxRecord& record) { return record.sandbox_id; }
  static std::string Encode(const SandboxRecord& record);
  // Reads what Encode returned. DATA_LOSS: the text is not such a record.
  static base::StatusOr<SandboxRecord> Decode(std::string_view text);
};
using SandboxRecords = BootRecords<SandboxRecordKind>;

}  // namespace berth::crust
