#include "csidriver/node_records.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::csidriver {
namespace {

constexpr int kVersion = 1;

constexpr const char* kDeviceUse = "deviceUse";
constexpr std::array<std::pair<DeviceUse, std::string_view>, 3> kUses = {
    {{DeviceUse::kNone, "none"},
     {DeviceUse::kMounted, "mounted"},
     {DeviceUse::kDeferred, "deferred"}}};

std::string_view NameOf(DeviceUse use) {
  return std::ranges::find(kUses, use, &std::pair<DeviceUse, std::string_view>::first)->second;
}

base::StatusOr<DeviceUse> ReadUse(const base::Json& value) {
  const std::string name = base::json::String(value, {kDeviceUse});
  // Earlier versions mounted the file system at staging and did not record its use.
  if (name.empty()) return DeviceUse::kMounted;
  for (const auto& [use, known] : kUses) {
    if (name == known) return use;
  }
  return base::Error(base::StatusCode::kDataLoss, "'{}' of the record is unknown", kDeviceUse);
}

}  // namespace

const PublishedTarget* NodeRecord::FindTarget(const platform::TargetPath& path) const {
  const auto it = std::ranges::find(targets, path, &PublishedTarget::path);
  return it == targets.end() ? nullptr : &*it;
}

std::string Encode(const NodeRecord& record) {
  base::Json targets = base::Json::array();
  for (const PublishedTarget& target : record.targets) {
    targets.push_back({{"path", target.path.text()},
                       {"readOnly", target.read_only},
                       {"capability", target.capability},
                       {"deferred", target.deferred}});
  }
  const base::Json json = {
      {"version", kVersion},
      {"volumeId", record.volume_id},
      {"bootId", record.boot_id},
      {"stagingPath", record.staging_path.text()},
      {"capability", record.capability},
      {"accessType", block::NameOf(record.access)},
      {kDeviceUse, NameOf(record.use)},
      {"targets", std::move(targets)},
  };
  return base::json::Dump(json) + "\n";
}

base::StatusOr<NodeRecord> DecodeNodeRecord(std::string_view text) {
  namespace json = base::json;
  ASSIGN_OR_RETURN(const base::Json value, platform::ParseRecord(text, kVersion));
  NodeRecord record;
  record.volume_id = json::String(value, {"volumeId"});
  record.boot_id = json::String(value, {"bootId"});
  record.staging_path = platform::StagingPath(json::String(value, {"stagingPath"}));
  record.capability = json::String(value, {"capability"});
  record.access = json::String(value, {"accessType"}) == block::NameOf(block::AccessType::kBlock)
                      ? block::AccessType::kBlock
                      : block::AccessType::kMount;
  ASSIGN_OR_RETURN(record.use, ReadUse(value));
  for (const base::Json& target : json::Array(value, {"targets"})) {
    record.targets.push_back(
        {platform::TargetPath(json::String(target, {"path"})), json::Bool(target, {"readOnly"}),
         json::String(target, {"capability"}), json::Bool(target, {"deferred"})});
  }
  if (!block::IsId(record.volume_id) || record.boot_id.empty() || record.staging_path.empty()) {
    return base::Error(base::StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

base::StatusOr<std::unique_ptr<NodeRecords>> NodeRecords::Open(const std::string& folder) {
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  std::unique_ptr<NodeRecords> records(new NodeRecords(folder, std::move(boot_id)));
  RETURN_IF_ERROR(records->LoadRecords());
  return records;
}

base::Status NodeRecords::LoadRecords() {
  ASSIGN_OR_RETURN(
      platform::LoadedRecords<NodeRecord> loaded,
      platform::LoadRecords<NodeRecord>(folder_, {.on_damage = platform::OnDamage::kSetAside},
                                        DecodeNodeRecord, &NodeRecord::volume_id));
  base::MutexLock lock(mutex_);
  for (NodeRecord& record : loaded.records) {
    if (!platform::IsThisBoot(record.boot_id, boot_id_)) {
      RETURN_IF_ERROR(platform::RemoveDurably<"csidriver.node_record">(PathOf(record.volume_id)));
      continue;
    }
    const std::string volume_id = record.volume_id;
    records_[volume_id] = std::move(record);
  }
  return base::OkStatus();
}

std::optional<NodeRecord> NodeRecords::Get(const std::string& volume_id) const {
  base::MutexLock lock(mutex_);
  const auto it = records_.find(volume_id);
  if (it == records_.end()) return std::nullopt;
  return it->second;
}

base::Status NodeRecords::Put(NodeRecord record) {
  record.boot_id = boot_id_;
  RETURN_IF_ERROR_WITH(
      platform::WriteDurably<"csidriver.node_record">(PathOf(record.volume_id), Encode(record)),
      "write node record");
  base::MutexLock lock(mutex_);
  records_[record.volume_id] = std::move(record);
  return base::OkStatus();
}

base::Status NodeRecords::PutWithFewerTargets(NodeRecord record) {
  const base::Status put = Put(record);
  if (put.code() != base::StatusCode::kResourceExhausted) return put;
  LOG_WARNING("{}", base::ToString(put));
  base::MutexLock lock(mutex_);
  record.boot_id = boot_id_;
  records_[record.volume_id] = std::move(record);
  return base::OkStatus();
}

base::Status NodeRecords::Remove(const std::string& volume_id) {
  RETURN_IF_ERROR_WITH(platform::RemoveDurably<"csidriver.node_record">(PathOf(volume_id)),
                       "remove node record");
  base::MutexLock lock(mutex_);
  records_.erase(volume_id);
  return base::OkStatus();
}

}  // namespace berth::csidriver
