#include "node/pods/pod_records.h"

#include "base/log.h"
#include "platform/files/durable_file.h"

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusOr;
namespace json = base::json;

constexpr std::string_view kSuffix = ".json";

// The part of the pod that is recorded: tear-down needs it. `env` is left out, because it may hold
// secrets.
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

StatusOr<PodRecord> Decode(const std::string& text) {
  ASSIGN_OR_RETURN(Json record, json::Parse(text));
  const Json* pod = json::Find(record, {"pod"});
  if (json::Int(record, {"version"}) != 1 || pod == nullptr || !pod->is_object()) {
    return base::Error(base::StatusCode::kDataLoss, "not a pod record of version 1");
  }
  return PodRecord{.pod = std::make_shared<const api::Pod>(*pod),
                   .sandbox_possible = json::Bool(record, {"sandboxPossible"}),
                   .ended_phase = json::String(record, {"ended", "phase"}),
                   .ended_reason = json::String(record, {"ended", "reason"}),
                   .ended_message = json::String(record, {"ended", "message"})};
}

}  // namespace

StatusOr<std::unique_ptr<PodRecords>> PodRecords::Open(std::string folder) {
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0700));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  return std::unique_ptr<PodRecords>(new PodRecords(std::move(folder)));
}

std::string PodRecords::Path(const std::string& uid) const {
  return fmt::format("{}/{}{}", folder_, uid, kSuffix);
}

StatusOr<std::map<std::string, PodRecord>> PodRecords::Load() const {
  std::map<std::string, PodRecord> out;
  ASSIGN_OR_RETURN(const auto names, platform::ListFolder(folder_));
  for (const std::string& name : names) {
    if (!name.ends_with(kSuffix)) continue;
    const std::string uid = name.substr(0, name.size() - kSuffix.size());
    const auto text = platform::ReadFile(Path(uid), 4 * 1024 * 1024);
    auto record = text.ok() ? Decode(*text) : StatusOr<PodRecord>(text.status());
    if (record.ok() && record->pod->uid() != uid) {
      record = base::Error(base::StatusCode::kDataLoss, "it is of pod '{}'", record->pod->uid());
    }
    if (!record.ok()) {
      LOG_ERROR("pod record {} cannot be used: {}", base::Quote(Path(uid)),
                base::ToString(record.status()));
      continue;
    }
    out.emplace(uid, *std::move(record));
  }
  return out;
}

Status PodRecords::Write(const PodRecord& record) const {
  Json text = {{"version", 1},
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
