// The records of pods and the volumes that each of their sandboxes gets, in one file for each pod
// (crust/paths.h). A record is written durably before a placeholder is mounted or a plan is written
// for it, and is removed after these are gone.
//
//   a volume:  [published] ──▶ [unpublishing] ──▶ gone
//
// "published": a sandbox that begins gets the volume. Records of another boot describe placeholders
// that are gone, and are dropped when they are loaded. Mount options are kept; only root can read
// the files. Thread-safe for different pods.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "crust/sandbox_records.h"

namespace berth::crust {

struct PodRecord {
  api::PodUid pod_uid;
  std::string boot_id;
  std::vector<VolumeRecord> volumes;

  // Finds a volume by its target path; nullptr: there is none.
  VolumeRecord* FindTarget(const platform::TargetPath& target);
  std::vector<platform::TargetPath> targets() const;
};

std::string Encode(const PodRecord& record);
// Reads what Encode returned. DATA_LOSS: the text is not such a record.
base::StatusOr<PodRecord> DecodePodRecord(std::string_view text);

class PodRecords {
 public:
  // `folder` is made if missing.
  static base::StatusOr<PodRecords> Open(std::string folder);

  struct Loaded {
    std::vector<PodRecord> records;       // those of this boot
    std::vector<api::PodUid> unreadable;  // pods of any boot; logged
  };
  // Reads all records, and removes those of other boots.
  base::StatusOr<Loaded> LoadRecords() const;
  // Sets the record's boot id and writes the record durably.
  base::Status WriteRecord(PodRecord& record) const;
  // OK if there is no record.
  base::Status RemoveRecord(const api::PodUid& pod) const;

 private:
  PodRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}
  std::string Path(const api::PodUid& pod) const { return folder_ + "/" + pod.text() + ".json"; }

  std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::crust
