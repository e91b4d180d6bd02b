// The records of pods and the volumes that each of their sandboxes gets, in one file for each pod
// (boot_records.h, crust/paths.h). A record is written before a placeholder is mounted or a
// plan is written for it, and is removed after these are gone.
//
//   a volume:  [published] ──▶ [unpublishing] ──▶ gone
//
// "published": a sandbox that begins gets the volume. Mount options are kept; only root can read
// the files.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/fault.h"
#include "base/status.h"
#include "crust/records/boot_records.h"
#include "crust/records/sandbox_records.h"

namespace berth::crust {

struct PodRecord {
  api::PodUid pod_uid;
  std::string boot_id;
  std::vector<VolumeRecord> volumes;

  // Finds a volume by its target path; nullptr: there is none.
  VolumeRecord* FindTarget(const platform::TargetPath& target);
  std::vector<platform::TargetPath> targets() const;
};

struct PodRecordKind {
  using Record = PodRecord;
  static constexpr base::FaultName kFault = "crust.pod_record";
  static constexpr std::string_view kName = "the pod's record";
  static std::string IdOf(const PodRecord& record) { return record.pod_uid.text(); }
  static std::string Encode(const PodRecord& record);
  // Reads what Encode returned. DATA_LOSS: the text is not such a record.
  static base::StatusOr<PodRecord> Decode(std::string_view text);
};
using PodRecords = BootRecords<PodRecordKind>;

}  // namespace berth::crust
