#include "crust/pods/pod_records.h"

#include <algorithm>

#include "base/json.h"
#include "crust/requests.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

constexpr int kPodVersion = 1;
constexpr size_t kMaxPodRecordBytes = 8 * 1024 * 1024;

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

std::string Encode(const PodRecord& record) {
  const Json value = {{"version", kPodVersion},
                      {"podUid", record.pod_uid.text()},
                      {"bootId", record.boot_id},
                      {"volumes", EncodeVolumes(record.volumes)}};
  return json::Dump(value) + "\n";
}

StatusOr<PodRecord> DecodePodRecord(std::string_view text) {
  ASSIGN_OR_RETURN(const Json value,
                   platform::ParseRecord(text, kPodVersion, {.max_bytes = kMaxPodRecordBytes}));
  PodRecord record{.pod_uid = api::PodUid(json::String(value, {"podUid"})),
                   .boot_id = json::String(value, {"bootId"})};
  ASSIGN_OR_RETURN(record.volumes, DecodeVolumes(json::Array(value, {"volumes"})));
  if (!CheckPodUid(record.pod_uid).ok() || record.boot_id.empty()) {
    return Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

StatusOr<PodRecords> PodRecords::Open(std::string folder) {
  RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  return PodRecords(std::move(folder), std::move(boot_id));
}

StatusOr<PodRecords::Loaded> PodRecords::LoadRecords() const {
  ASSIGN_OR_RETURN(
      platform::LoadedRecords<PodRecord> files,
      platform::LoadRecords<PodRecord>(
          folder_, {.on_damage = platform::OnDamage::kLeave, .max_bytes = kMaxPodRecordBytes},
          DecodePodRecord, [](const PodRecord& record) { return record.pod_uid.text(); }));
  Loaded loaded;
  for (const platform::DamagedRecord& damaged : files.damaged) {
    loaded.unreadable.emplace_back(damaged.name);
  }
  for (PodRecord& record : files.records) {
    if (!platform::IsThisBoot(record.boot_id, boot_id_)) {
      RETURN_IF_ERROR(RemoveRecord(record.pod_uid));
      continue;
    }
    loaded.records.push_back(std::move(record));
  }
  return loaded;
}

base::Status PodRecords::WriteRecord(PodRecord& record) const {
  record.boot_id = boot_id_;
  return base::Annotate(
      platform::WriteDurably<"crust.pod_record">(Path(record.pod_uid), Encode(record)),
      "write the pod's record");
}

base::Status PodRecords::RemoveRecord(const api::PodUid& pod) const {
  return base::Annotate(platform::RemoveDurably<"crust.pod_record">(Path(pod)),
                        "remove the pod's record");
}

}  // namespace berth::crust
