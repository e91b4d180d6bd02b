#include "crust/records/sandbox_records.h"

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

constexpr int kVersion = 1;

constexpr std::string_view StateName(VolumeState state) {
  switch (state) {
    case VolumeState::kPublishing:
      return "publishing";
    case VolumeState::kFailed:
      return "failed";
    case VolumeState::kPublished:
      return "published";
    case VolumeState::kUnpublishing:
      break;
  }
  return "unpublishing";
}

StatusOr<VolumeState> StateFrom(std::string_view name) {
  for (const VolumeState state : {VolumeState::kPublishing, VolumeState::kFailed,
                                  VolumeState::kPublished, VolumeState::kUnpublishing}) {
    if (StateName(state) == name) return state;
  }
  return Error(StatusCode::kDataLoss, "a volume's state is unknown");
}

}  // namespace

VolumeRecord* SandboxRecord::FindTarget(const platform::TargetPath& target) {
  const auto it = std::ranges::find(volumes, target, &VolumeRecord::target);
  return it == volumes.end() ? nullptr : &*it;
}

const VolumeRecord* SandboxRecord::FindVolume(std::string_view host_volume_id) const {
  const auto it = std::ranges::find(volumes, host_volume_id, &VolumeRecord::host_volume_id);
  return it == volumes.end() ? nullptr : &*it;
}

Json EncodeVolumes(const std::vector<VolumeRecord>& volumes) {
  Json list = Json::array();
  for (const VolumeRecord& volume : volumes) {
    Json member = {{"hostVolumeId", volume.host_volume_id},
                   {"target", volume.target.text()},
                   {"state", StateName(volume.state)},
                   {"plan", Encode(volume.plan)}};
    if (volume.grow) member["grow"] = true;
    list.push_back(std::move(member));
  }
  return list;
}

StatusOr<std::vector<VolumeRecord>> DecodeVolumes(const Json& list) {
  std::vector<VolumeRecord> volumes;
  for (const Json& member : list) {
    VolumeRecord volume{.host_volume_id = json::String(member, {"hostVolumeId"}),
                        .target = platform::TargetPath(json::String(member, {"target"})),
                        .grow = json::Bool(member, {"grow"})};
    ASSIGN_OR_RETURN(volume.state, StateFrom(json::String(member, {"state"})));
    ASSIGN_OR_RETURN(volume.plan, DecodeMountPlan(json::Map(member, {"plan"})));
    volumes.push_back(std::move(volume));
  }
  return volumes;
}

std::string SandboxRecordKind::Encode(const SandboxRecord& record) {
  const Json value = {{"version", kVersion},
                      {"sandboxId", record.sandbox_id},
                      {"podUid", record.pod_uid.text()},
                      {"bundle", record.bundle},
                      {"bootId", record.boot_id},
                      {"ending", record.ending},
                      {"volumes", EncodeVolumes(record.volumes)}};
  return json::Dump(value) + "\n";
}

StatusOr<SandboxRecord> SandboxRecordKind::Decode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json value,
                   platform::ParseRecord(text, kVersion, {.max_bytes = kMaxRecordBytes}));
  SandboxRecord record{.sandbox_id = json::String(value, {"sandboxId"}),
                       .pod_uid = api::PodUid(json::String(value, {"podUid"})),
                       .bundle = json::String(value, {"bundle"}),
                       .boot_id = json::String(value, {"bootId"}),
                       .ending = json::Bool(value, {"ending"})};
  ASSIGN_OR_RETURN(record.volumes, DecodeVolumes(json::Array(value, {"volumes"})));
  if (!CheckSandboxId(record.sandbox_id).ok() || !CheckPodUid(record.pod_uid).ok() ||
      record.bundle.empty() || record.boot_id.empty()) {
    return Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

}  // namespace berth::crust
