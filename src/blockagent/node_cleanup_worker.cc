#include "blockagent/node_cleanup_worker.h"

#include "base/log.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using api::CleanupEntry;
using api::NodeCleanup;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

std::string KeyOf(const CleanupEntry& entry) {
  return entry.volume + "/" + entry.attachment.pod_uid;
}

base::ObjectReference ReferenceTo(const CleanupEntry& entry) {
  return {
      .api_version = "v1", .kind = "PersistentVolume", .ns = "", .name = entry.volume, .uid = ""};
}

}  // namespace

StatusOr<bool> NodeCleanupWorker::IsRightlyInUse(const CleanupEntry& entry, bool& fenced) {
  ASSIGN_OR_RETURN(fenced, attachments_.IsFenced(entry.volume, entry.attachment));
  if (!fenced) return false;
  const auto pod =
      kube::Get<api::Pod>(client_, entry.attachment.pod_namespace, entry.attachment.pod);
  if (pod.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(pod);
  return pod->uid() == entry.attachment.pod_uid && !pod->deleting();
}

Status NodeCleanupWorker::WorkOffEntry(const CleanupEntry& entry, Time deadline) {
  bool fenced = false;
  const auto in_use = IsRightlyInUse(entry, fenced);
  RETURN_IF_ERROR(in_use);
  if (!*in_use) {
    const Time first =
        first_tries_.try_emplace(KeyOf(entry), std::chrono::steady_clock::now()).first->second;
    const bool force = !fenced || std::chrono::steady_clock::now() - first >= options_.patience;
    RETURN_IF_ERROR(attachments_.TakeEntryOff(entry, {.on = force}, deadline));
    const std::string text =
        fmt::format("took volume {} off node {}{}: {}", Quote(entry.volume), Quote(options_.node),
                    force ? " by force" : "", entry.reason);
    LOG_INFO("{}", text);
    events_.Record(ReferenceTo(entry), base::EventType::kNormal, "VolumeCleanedUp", text);
  }
  RETURN_IF_ERROR(RemoveCleanup(client_, api::NodeName(options_.node), entry));
  first_tries_.erase(KeyOf(entry));
  return base::OkStatus();
}

Status NodeCleanupWorker::WriteStatus(const NodeCleanup& cleanup,
                                      const std::map<std::string, std::string>& failures) {
  Json entries = Json::array();
  for (const CleanupEntry& entry : cleanup.entries()) {
    const auto failure = failures.find(KeyOf(entry));
    if (failure == failures.end()) continue;
    entries.push_back({{"volume", entry.volume},
                       {"podUID", entry.attachment.pod_uid},
                       {"message", failure->second}});
  }
  const std::string message = fmt::format("{} left: {}", failures.size(), failures.begin()->second);
  const Json status = {{"message", message}, {"entries", std::move(entries)}};
  const Json* before = base::json::Find(cleanup.json(), {"status"});
  if (before != nullptr && *before == status) return base::OkStatus();
  return kube::MergePatch(client_, cleanup, {{"status", status}}, "status").status();
}

Status NodeCleanupWorker::WorkOffEntries(Time deadline) {
  const auto cleanup = kube::Get<NodeCleanup>(client_, "", options_.node);
  if (cleanup.status().code() == StatusCode::kNotFound) {
    first_tries_.clear();
    return base::OkStatus();
  }
  RETURN_IF_ERROR(cleanup);
  std::map<std::string, std::string> failures;
  for (const CleanupEntry& entry : cleanup->entries()) {
    const Status done = WorkOffEntry(entry, deadline);
    if (!done.ok()) failures[KeyOf(entry)] = std::string(base::Message(done));
  }
  if (failures.empty()) return base::OkStatus();
  if (const Status written = WriteStatus(*cleanup, failures); !written.ok()) {
    LOG_WARNING("{}", base::ToString(written));
  }
  return base::Error(StatusCode::kUnavailable, "{} volumes are still to be taken off: {}",
                     failures.size(), failures.begin()->second);
}

}  // namespace berth::blockagent
