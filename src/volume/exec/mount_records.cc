#include "volume/exec/mount_records.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::volume {
namespace {

using base::Json;
using base::Status;
using base::StatusOr;

constexpr int kVersion = 1;

// A record as it is on disk.
struct Stored {
  MountRecord record;
  std::string boot;
};

std::string NameOf(std::string_view target) { return base::Sha256Hex(target); }

Json ToJson(const MountRecord& record, const std::string& boot) {
  Json json = {{"version", kVersion},
               {"target", record.target},
               {"plugin", record.plugin},
               {"bootID", boot}};
  if (record.container) {
    const Registration& pod = record.container->registration;
    json["container"] = {{"podNamespace", pod.pod_namespace},
                         {"podName", pod.pod_name},
                         {"podUID", pod.pod_uid},
                         {"containerName", pod.container},
                         {"containerID", record.container->id}};
  }
  if (!record.run_id.empty()) json["runID"] = record.run_id;
  return json;
}

// DATA_LOSS: the record is damaged.
StatusOr<Stored> Decode(std::string_view text) {
  using base::json::String;
  ASSIGN_OR_RETURN(const Json json, platform::ParseRecordOrUnversioned(text, kVersion));
  MountRecord record{.target = String(json, {"target"}),
                     .plugin = String(json, {"plugin"}),
                     .container = std::nullopt,
                     .run_id = String(json, {"runID"})};
  if (base::json::Find(json, {"container"}) != nullptr) {
    record.container = PodContainer{.registration = {String(json, {"container", "podNamespace"}),
                                                     String(json, {"container", "podName"}),
                                                     String(json, {"container", "podUID"}),
                                                     String(json, {"container", "containerName"})},
                                    .id = String(json, {"container", "containerID"})};
    if (record.container->id.empty()) {
      return base::Error(base::StatusCode::kDataLoss, "it has no containerID");
    }
  }
  if (record.target.empty()) return base::Error(base::StatusCode::kDataLoss, "it has no target");
  return Stored{.record = std::move(record), .boot = String(json, {"bootID"})};
}

}  // namespace

std::string MountRecords::FileOf(std::string_view target) const {
  return fmt::format("{}/{}{}", folder_, NameOf(target), platform::kRecordSuffix);
}

Status MountRecords::LoadRecords() {
  ASSIGN_OR_RETURN(boot_, platform::ReadBootId());
  ASSIGN_OR_RETURN(
      const platform::LoadedRecords<Stored> loaded,
      platform::LoadRecords<Stored>(folder_, {.on_damage = platform::OnDamage::kSetAside}, Decode,
                                    [](const Stored& one) { return NameOf(one.record.target); }));
  for (const Stored& one : loaded.records) {
    if (!platform::IsThisBoot(one.boot, boot_)) RETURN_IF_ERROR(Remove(one.record.target));
  }
  return base::OkStatus();
}

Status MountRecords::Write(const MountRecord& record) {
  return platform::WriteDurably<"exec.mount_record">(FileOf(record.target),
                                                     base::json::Dump(ToJson(record, boot_)));
}

StatusOr<std::optional<MountRecord>> MountRecords::Read(std::string_view target) const {
  const platform::RecordFile file{
      .path = FileOf(target), .name = NameOf(target), .text = platform::ReadFile(FileOf(target))};
  const base::StatusCode read = file.text.status().code();
  if (read == base::StatusCode::kNotFound) return std::nullopt;
  if (read == base::StatusCode::kResourceExhausted) return file.text.status();
  StatusOr<Stored> stored = file.text.ok() ? Decode(*file.text) : file.text.status();
  if (stored.ok() && stored->record.target != target) {
    stored = base::Error(base::StatusCode::kDataLoss, "it belongs to the target {}",
                         base::Quote(stored->record.target));
  }
  if (!stored.ok()) {
    RETURN_IF_ERROR(platform::HandleDamage(file, stored.status(), platform::OnDamage::kSetAside));
    return std::nullopt;
  }
  if (!platform::IsThisBoot(stored->boot, boot_)) return std::nullopt;
  return std::move(stored->record);
}

Status MountRecords::Remove(std::string_view target) {
  return platform::RemoveDurably<"exec.mount_record">(FileOf(target));
}

}  // namespace berth::volume
