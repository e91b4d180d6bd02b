#include "node/pods/pod_records.h"

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusOr;
namespace json = base::json;

constexpr int kVersion = 1;
constexpr size_t kMaxRecord = 4 * 1024 * 1024;  // bytes

// The part of the pod that is recorded, which the tear-down needs. `env` is left out, because it
// may hold secrets.
Json Remembered(const api::Pod& pod) {
  Json out = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  for (const char* member : {"name", "namespace", "uid", "labels"}) {
    if (const Json* value = json::Find(pod.json(), {"metadata", member}); value != nullptr) {
      json::Set(out, {"metadata", member}, *value);
    }
  }
  Json spec = json::Map(pod.json(), {"spec"});
  for (const char* list : {"containers", "initContainers", "ephemeralContainers"}) {
    const auto containers = spec.find(list);
    if (containers == spec.end() || !containers->is_array()) continue;
    for (Json& container : *containers) {
      if (container.is_object()) container.erase("env");
    }
  }
  out["spec"] = std::move(spec);
  return out;
}

StatusOr<PodRecord> Decode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json record, platform::ParseRecord(text, kVersion));
  const Json* pod = json::Find(record, {"pod"});
  if (pod == nullptr || !pod->is_object()) {
    return base::Error(base::StatusCode::kDataLoss, "the record has no pod");
  }
  return PodRecord{.pod = std::make_shared<const api::Pod>(*pod),
                   .sandbox_possible = json::Bool(record, {"sandboxPossible"}),
                   .ended_phase = json::String(record, {"ended", "phase"}),
                   .ended_reason = json::String(record, {"ended", "reason"}),
                   .ended_message = json::String(record, {"ended", "message"})};
}

}  // namespace

StatusOr<std::unique_ptr<PodRecords>> PodRecords::Open(std::string folder) {
  RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  return std::unique_ptr<PodRecords>(new PodRecords(std::move(folder)));
}

std::string PodRecords::Path(const std::string& uid) const {
  return fmt::format("{}/{}{}", folder_, uid, platform::kRecordSuffix);
}

StatusOr<std::map<std::string, PodRecord>> PodRecords::Load() const {
  ASSIGN_OR_RETURN(platform::LoadedRecords<PodRecord> loaded,
                   platform::LoadRecords<PodRecord>(
                       folder_, {.on_damage = platform::OnDamage::kLeave, .max_bytes = kMaxRecord},
                       Decode, [](const PodRecord& record) { return record.pod->uid(); }));
  std::map<std::string, PodRecord> out;
  for (PodRecord& record : loaded.records) {
    const std::string uid = record.pod->uid();
    out.emplace(uid, std::move(record));
  }
  return out;
}

Status PodRecords::Write(const PodRecord& record) const {
  Json text = {{"version", kVersion},
               {"pod", Remembered(*record.pod)},
               {"sandboxPossible", record.sandbox_possible}};
  if (!record.ended_phase.empty()) {
    text["ended"] = {{"phase", record.ended_phase},
                     {"reason", record.ended_reason},
                     {"message", record.ended_message}};
  }
  return base::Annotate(
      platform::WriteDurably<"node.pod_record">(Path(record.pod->uid()), json::Dump(text)),
      fmt::format("record pod '{}'", record.pod->key()));
}

Status PodRecords::Remove(const std::string& uid) const {
  return platform::RemoveDurably<"node.pod_record">(Path(uid));
}

}  // namespace berth::node
