#include "blockagent/records.h"

#include <algorithm>

#include "api/names.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/files/record_files.h"

namespace berth::blockagent {
namespace {

namespace json = base::json;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kVersion = 1;
constexpr std::string_view kStates[] = {"attaching", "mapped", "mounted", "detaching"};

std::string FileOf(const std::string& volume) { return volume + ".json"; }

std::optional<State> StateOf(std::string_view name) {
  const auto it = std::ranges::find(kStates, name);
  if (it == std::end(kStates)) return std::nullopt;
  return static_cast<State>(it - std::begin(kStates));
}

Json MappingToJson(const block::Mapping& mapping) {
  return {{"image", mapping.image},
          {"device", mapping.device},
          {"deviceNumber", mapping.device_number},
          {"sizeBytes", mapping.size_bytes},
          {"readOnly", mapping.read_only},
          {"state", mapping.state}};
}

block::Mapping MappingOf(const Json& value) {
  const Json* state = json::Find(value, {"state"});
  return {.image = json::String(value, {"image"}),
          .device = json::String(value, {"device"}),
          .device_number = static_cast<uint64_t>(json::Int(value, {"deviceNumber"})),
          .size_bytes = json::Int(value, {"sizeBytes"}),
          .read_only = json::Bool(value, {"readOnly"}),
          .state = state == nullptr ? Json::object() : *state};
}

}  // namespace

std::string_view StateName(State state) { return kStates[static_cast<size_t>(state)]; }

Use* Record::Find(const api::FenceEntry& entry) {
  const auto it =
      std::ranges::find_if(uses, [&](const Use& use) { return use.entry.IsSameUse(entry); });
  return it == uses.end() ? nullptr : &*it;
}

Use* Record::FindByFolder(std::string_view mount_dir) {
  const auto it =
      std::ranges::find_if(uses, [&](const Use& use) { return use.entry.mount_dir == mount_dir; });
  return it == uses.end() ? nullptr : &*it;
}

Json ToJson(const Record& record) {
  Json uses = Json::array();
  for (const Use& use : record.uses) {
    uses.push_back({{"entry", use.entry.ToJson()}, {"state", StateName(use.state)}});
  }
  return {{"version", kVersion},
          {"volume", record.volume},
          {"volumeUID", record.volume_uid},
          {"cluster", record.cluster},
          {"image", record.image},
          {"backend", record.backend},
          {"bootId", record.boot_id},
          {"state", StateName(record.state)},
          {"fsType", record.fs_type},
          {"formattingUUID", record.formatting_uuid},
          {"sharedMount", record.shared_mount},
          {"mapping", record.mapping.has_value() ? MappingToJson(*record.mapping) : Json()},
          {"uses", std::move(uses)}};
}

StatusOr<Record> FromJson(const Json& value) {
  const auto state = StateOf(json::String(value, {"state"}));
  const Json* backend = json::Find(value, {"backend"});
  Record record{.volume = json::String(value, {"volume"}),
                .volume_uid = json::String(value, {"volumeUID"}),
                .cluster = json::String(value, {"cluster"}),
                .image = json::String(value, {"image"}),
                .backend = backend == nullptr ? Json() : *backend,
                .boot_id = json::String(value, {"bootId"}),
                .state = state.value_or(State::kAttaching),
                .fs_type = json::String(value, {"fsType"}),
                .formatting_uuid = json::String(value, {"formattingUUID"}),
                .shared_mount = json::String(value, {"sharedMount"})};
  if (const Json* mapping = json::Find(value, {"mapping"});
      mapping != nullptr && mapping->is_object()) {
    record.mapping = MappingOf(*mapping);
  }
  bool whole = state.has_value() && api::CheckDns1123Subdomain(record.volume).ok() &&
               !record.image.empty() && !record.boot_id.empty();
  for (const Json& use : json::Array(value, {"uses"})) {
    const auto of_use = StateOf(json::String(use, {"state"}));
    const Json* entry = json::Find(use, {"entry"});
    whole = whole && of_use.has_value() && entry != nullptr;
    if (whole) record.uses.push_back({api::FenceEntry::From(*entry), *of_use});
  }
  if (!whole) {
    return base::Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  return record;
}

StatusOr<std::unique_ptr<Records>> Records::Open(const std::string& folder) {
  ASSIGN_OR_RETURN(auto writable, platform::RecordFolder::Open(folder));
  std::unique_ptr<Records> records(new Records(std::move(writable)));
  const auto decode = [](std::string_view text) -> StatusOr<Record> {
    ASSIGN_OR_RETURN(const Json value, platform::ParseRecord(text, kVersion));
    return FromJson(value);
  };
  ASSIGN_OR_RETURN(platform::LoadedRecords<Record> loaded,
                   platform::LoadRecords<Record>(folder, {.on_damage = platform::OnDamage::kRefuse},
                                                 decode, &Record::volume));
  MutexLock lock(records->mutex_);
  for (Record& record : loaded.records) {
    Record& kept = records->records_[record.volume];
    kept = std::move(record);
  }
  return records;
}

std::optional<Record> Records::Get(const std::string& volume) const {
  MutexLock lock(mutex_);
  const auto it = records_.find(volume);
  return it == records_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<Record> Records::ListRecords() const {
  MutexLock lock(mutex_);
  std::vector<Record> all;
  all.reserve(records_.size());
  for (const auto& [volume, record] : records_) all.push_back(record);
  return all;
}

std::string Records::FindVolumeAt(std::string_view mount_dir) const {
  MutexLock lock(mutex_);
  for (const auto& [volume, record] : records_) {
    for (const Use& use : record.uses) {
      if (use.entry.mount_dir == mount_dir) return volume;
    }
  }
  return "";
}

std::string Records::FindOtherVolume(const Record& record) const {
  MutexLock lock(mutex_);
  for (const auto& [volume, other] : records_) {
    // Two clusters may have the same back end, and one cluster may have got another back end by
    // now.
    if (volume != record.volume && other.image == record.image &&
        (other.cluster == record.cluster || block::MayBeSameStore(other.backend, record.backend))) {
      return volume;
    }
  }
  return "";
}

Status Records::Put(const Record& record) {
  RETURN_IF_ERROR_WITH(
      folder_->Write<"blockagent.record">(FileOf(record.volume), json::Dump(ToJson(record)) + "\n"),
      fmt::format("record volume {}", base::Quote(record.volume)));
  MutexLock lock(mutex_);
  records_[record.volume] = record;
  return base::OkStatus();
}

Status Records::Remove(const std::string& volume) {
  RETURN_IF_ERROR(folder_->Remove<"blockagent.record">(FileOf(volume)));
  MutexLock lock(mutex_);
  records_.erase(volume);
  return base::OkStatus();
}

}  // namespace berth::blockagent
