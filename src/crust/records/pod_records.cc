#include "crust/records/pod_records.h"

#include <algorithm>

#include "base/json.h"
#include "crust/requests.h"
#include "platform/files/record_files.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

constexpr int kPodVersion = 1;

}  // namespace

VolumeRecord* PodRecord::FindTarget(const platform::TargetPath& target) {
  const auto it = std::ranges::find(volumes, target, &VolumeRecord::target);
  return it == volumes.end() ? nullptr : &*it;
}

std::vector<platform::TargetPath> PodRecord::targets() const {
  std::vector<platform::TargetPath> targets;
  for (const VolumeRecord& volume : volumes) targets.push_back(volume.target);
  return targets;
}

std::string PodRecordKind::Encode(const PodRecord& record) {
  const Json value = {{"version", kPodVersion},
                      {"podUid", record.pod_uid.text()},
                      {"bootId", record.boot_id},
                      {"volumes", EncodeVolumes(record.volumes)}};
  return json::Dump(value) + "\n";
}

StatusOr<PodRecord> PodRecordKind::Decode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json value,
                   platform::ParseRecord(text, kPodVersion, {.max_bytes = kMaxRecordBytes}));
  PodRecord record{.pod_uid = api::PodUid(json::String(value, {"podUid"})),
                   .boot_id = json::String(value, {"bootId"})};
  ASSIGN_OR_RETURN(record.volumes, DecodeVolumes(json::Array(value, {"volumes"})));
  if (!CheckPodUid(record.pod_uid).ok() || record.boot_id.empty()) {
    return Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

}  // namespace berth::crust
