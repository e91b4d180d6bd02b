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

Json ToJson(const MountRecord& record, const std::string& boot) {
  Json json = {{"target", record.target}, {"plugin", record.plugin}, {"bootID", boot}};
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

StatusOr<MountRecord> FromJson(const Json& json) {
  using base::json::String;
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
      return base::Error(base::StatusCode::kInternal, "it has no containerID");
    }
  }
  if (record.target.empty()) return base::Error(base::StatusCode::kInternal, "it has no target");
  return record;
}

}  // namespace

std::string MountRecords::FileOf(std::string_view target) const {
  return fmt::format("{}/{}.json", folder_, base::Sha256Hex(target));
}

Status MountRecords::LoadRecords() {
  ASSIGN_OR_RETURN(boot_, platform::BootId());
  ASSIGN_OR_RETURN(const std::vector<platform::RecordFile> files,
                   platform::ReadRecordFiles(folder_));
  for (const platform::RecordFile& file : files) {
    if (!file.text.ok()) continue;
    const auto json = base::json::Parse(*file.text);
    if (!json.ok() || platform::IsThisBoot(base::json::String(*json, {"bootID"}), boot_)) continue;
    RETURN_IF_ERROR(platform::RemoveDurably<"exec.mount_record">(file.path));
  }
  return base::OkStatus();
}

Status MountRecords::Write(const MountRecord& record) {
  return platform::WriteDurably<"exec.mount_record">(FileOf(record.target),
                                                     base::json::Dump(ToJson(record, boot_)));
}

StatusOr<std::optional<MountRecord>> MountRecords::Read(std::string_view target) const {
  const std::string path = FileOf(target);
  const auto text = platform::ReadFile(path);
  if (text.status().code() == base::StatusCode::kNotFound) return std::nullopt;
  const std::string what = fmt::format("the record '{}' of how '{}' was mounted", path, target);
  RETURN_IF_ERROR_WITH(text, what);
  const auto json = base::json::Parse(*text);
  if (!json.ok()) {
    return base::Error(base::StatusCode::kInternal, "{}: {}", what, base::Message(json.status()));
  }
  if (!platform::IsThisBoot(base::json::String(*json, {"bootID"}), boot_)) return std::nullopt;
  auto record = FromJson(*json);
  RETURN_IF_ERROR_WITH(record, what);
  return *std::move(record);
}

Status MountRecords::Remove(std::string_view target) {
  return platform::RemoveDurably<"exec.mount_record">(FileOf(target));
}

}  // namespace berth::volume
