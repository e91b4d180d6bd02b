#include "crustproxy/volume_records.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "base/ids.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::crustproxy {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kVersion = 1;

constexpr std::pair<Staging, std::string_view> kStagings[] = {{Staging::kByKubelet, "byKubelet"},
                                                              {Staging::kDeferred, "deferred"},
                                                              {Staging::kMounting, "mounting"},
                                                              {Staging::kMount, "mount"},
                                                              {Staging::kBlock, "block"}};

Json ToJson(const PodUse& use) {
  Json mount = {{"source", use.mount.source},
                {"type", use.mount.fs_type},
                {"options", use.mount.options},
                {"onlyOnRootMismatch", use.mount.only_on_root_mismatch},
                {"selinuxLabel", use.mount.selinux_label}};
  if (use.mount.selinux_relabel) mount["selinuxRelabel"] = true;
  if (use.mount.fs_group.has_value()) mount["fsGroup"] = *use.mount.fs_group;
  return {{"pod", use.pod.text()},      {"target", use.target.text()},
          {"handler", use.handler},     {"leftByDriver", use.left_by_driver},
          {"published", use.published}, {"mount", std::move(mount)}};
}

StatusOr<PodUse> ReadUse(const Json& value) {
  PodUse use{.pod = api::PodUid(json::String(value, {"pod"})),
             .target = platform::TargetPath(json::String(value, {"target"})),
             .handler = json::String(value, {"handler"}),
             .left_by_driver = json::Bool(value, {"leftByDriver"}),
             .published = json::Bool(value, {"published"}),
             .mount = {.source = json::String(value, {"mount", "source"}),
                       .fs_type = json::String(value, {"mount", "type"}),
                       .only_on_root_mismatch = json::Bool(value, {"mount", "onlyOnRootMismatch"}),
                       .selinux_label = json::String(value, {"mount", "selinuxLabel"}),
                       .selinux_relabel = json::Bool(value, {"mount", "selinuxRelabel"})}};
  for (const Json& option : json::Array(value, {"mount", "options"})) {
    if (option.is_string()) use.mount.options.push_back(option.get<std::string>());
  }
  if (json::Find(value, {"mount", "fsGroup"}) != nullptr) {
    use.mount.fs_group = json::Int(value, {"mount", "fsGroup"});
  }
  if (use.pod.empty() || use.target.empty() || use.handler.empty()) {
    return Error(StatusCode::kDataLoss, "a pod of the record has no uid, target or handler");
  }
  return use;
}

}  // namespace

PodUse* VolumeRecord::FindPod(const std::string& target) {
  const auto found =
      std::ranges::find_if(pods, [&](const PodUse& use) { return use.target.text() == target; });
  return found == pods.end() ? nullptr : &*found;
}

void VolumeRecord::RemovePod(const std::string& target) {
  std::erase_if(pods, [&](const PodUse& use) { return use.target.text() == target; });
}

bool VolumeRecord::HasHostTarget(const std::string& target) const {
  return std::ranges::find(host_targets, platform::TargetPath(target)) != host_targets.end();
}

void VolumeRecord::RemoveHostTarget(const std::string& target) {
  std::erase(host_targets, platform::TargetPath(target));
}

std::string Encode(const VolumeRecord& record, std::string_view boot_id) {
  std::string stage;
  // A message of strings and numbers can always be encoded.
  (void)google::protobuf::util::MessageToJsonString(record.stage, &stage);
  std::string_view staging;
  for (const auto& [value, name] : kStagings) {
    if (value == record.staging) staging = name;
  }
  Json pods = Json::array();
  for (const PodUse& use : record.pods) pods.push_back(ToJson(use));
  Json host_targets = Json::array();
  for (const platform::TargetPath& target : record.host_targets) {
    host_targets.push_back(target.text());
  }
  return json::Dump({{"version", kVersion},
                     {"bootId", boot_id},
                     {"volumeHandle", record.handle.text()},
                     {"name", record.name.text()},
                     {"staging", staging},
                     {"stage", std::move(stage)},
                     {"pods", std::move(pods)},
                     {"hostTargets", std::move(host_targets)}});
}

StatusOr<VolumeRecord> DecodeVolumeRecord(std::string_view text, std::string_view boot_id) {
  ASSIGN_OR_RETURN(const Json value, platform::ParseRecord(text, kVersion));
  VolumeRecord record{.handle = api::VolumeHandle(json::String(value, {"volumeHandle"})),
                      .name = api::VolumeName(json::String(value, {"name"}))};
  const std::string staging = json::String(value, {"staging"});
  const auto known =
      std::ranges::find_if(kStagings, [&](const auto& each) { return each.second == staging; });
  if (record.handle.empty() || known == std::end(kStagings)) {
    return Error(StatusCode::kDataLoss, "the record names no volume, or no way of staging");
  }
  record.staging = known->first;
  if (!google::protobuf::util::JsonStringToMessage(json::String(value, {"stage"}), &record.stage)
           .ok()) {
    return Error(StatusCode::kDataLoss, "the record's request to stage cannot be read");
  }
  const bool this_boot = platform::IsThisBoot(json::String(value, {"bootId"}), boot_id);
  for (const Json& each : json::Array(value, {"pods"})) {
    ASSIGN_OR_RETURN(PodUse use, ReadUse(each));
    use.published &= this_boot;
    record.pods.push_back(std::move(use));
  }
  for (const Json& target : json::Array(value, {"hostTargets"})) {
    if (this_boot && target.is_string()) {
      record.host_targets.emplace_back(target.get<std::string>());
    }
  }
  return record;
}

std::string VolumeRecords::Path(const std::string& handle) const {
  return fmt::format("{}/{}{}", folder_, base::Sha256Hex(handle), platform::kRecordSuffix);
}

StatusOr<std::unique_ptr<VolumeRecords>> VolumeRecords::Open(std::string folder) {
  RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  std::unique_ptr<VolumeRecords> records(new VolumeRecords(std::move(folder), std::move(boot_id)));
  // A volume whose record is lost could be mounted by the host while a sandbox has it.
  ASSIGN_OR_RETURN(
      auto loaded,
      platform::LoadRecords<VolumeRecord>(
          records->folder_, {.on_damage = platform::OnDamage::kRefuse},
          [&](std::string_view text) { return DecodeVolumeRecord(text, records->boot_id_); },
          [](const VolumeRecord& record) { return base::Sha256Hex(record.handle.text()); }));
  base::MutexLock lock(records->mutex_);
  for (VolumeRecord& record : loaded.records) {
    const std::string handle = record.handle.text();
    records->records_.emplace(handle, std::move(record));
  }
  return records;
}

std::optional<VolumeRecord> VolumeRecords::Find(const std::string& handle) const {
  base::MutexLock lock(mutex_);
  const auto found = records_.find(handle);
  return found == records_.end() ? std::nullopt : std::optional(found->second);
}

Status VolumeRecords::Write(const VolumeRecord& record) {
  const std::string& handle = record.handle.text();
  RETURN_IF_ERROR_WITH(
      platform::WriteDurably<"crustproxy.volume">(Path(handle), Encode(record, boot_id_)),
      fmt::format("record volume {}", base::Quote(handle)));
  base::MutexLock lock(mutex_);
  records_.insert_or_assign(handle, record);
  return base::OkStatus();
}

Status VolumeRecords::Remove(const std::string& handle) {
  RETURN_IF_ERROR(platform::RemoveDurably<"crustproxy.volume">(Path(handle)));
  base::MutexLock lock(mutex_);
  records_.erase(handle);
  return base::OkStatus();
}

}  // namespace berth::crustproxy
