// The part of Attachments that takes volumes off when this node is cut off (self_fence.h).

#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "blockagent/attachments.h"

namespace berth::blockagent {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

std::vector<SelfFence::Volume> Attachments::ListMovableVolumes() {
  std::vector<SelfFence::Volume> volumes;
  for (const Record& record : records_->ListRecords()) {
    const StatusOr<BackendPtr> backend = OpenBackend(record.backend);
    if (!backend.ok() || !(*backend)->FencesNodes()) continue;
    volumes.push_back({.name = record.volume,
                       .has_device = record.mapping.has_value() && !record.mapping->read_only});
  }
  return volumes;
}

Status Attachments::CheckOwnLock(const std::string& volume) {
  const std::optional<Record> record = records_->Get(volume);
  if (!record.has_value() || !record->mapping.has_value()) return base::OkStatus();
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record->backend));
  ASSIGN_OR_RETURN(const bool held, backend->HoldsLock(*record->mapping));
  if (held) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "the storage has no lock of this node for {}",
               Quote(record->image));
}

Status Attachments::TakeOffCutOff(const std::string& volume, const Force& force,
                                  Deadline deadline) {
  const std::optional<Record> found = records_->Get(volume);
  if (!found.has_value()) return base::OkStatus();
  {
    const MutexLock lock(mutex_);
    std::vector<base::ObjectReference>& told = cut_off_[volume];
    told = {ReferenceToVolume(*found)};
    for (const Use& use : found->uses) told.push_back(ReferenceToPod(use.entry));
  }
  // Without the volume's lock, because the call that holds it may wait for the API. From here on
  // nothing is written.
  ShutOffDevice(*found, force);
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume, deadline));
  std::optional<Record> record = records_->Get(volume);
  if (!record.has_value()) return base::OkStatus();
  // The call that held the lock has mapped the volume anew, because the API answers again.
  const auto state_of = [](const Record& of) {
    return of.mapping.has_value() ? of.mapping->state : base::Json();
  };
  if (state_of(*record) != state_of(*found)) return base::OkStatus();
  // Reconcile then gives the fence back, once the API answers.
  record->state = State::kDetaching;
  for (Use& use : record->uses) use.state = State::kDetaching;
  RETURN_IF_ERROR(records_->Put(*record));
  for (const Use& use : record->uses) {
    RETURN_IF_ERROR(UnmountAt(*record, use.entry.mount_dir, /*lazily=*/true));
  }
  if (!record->shared_mount.empty()) {
    RETURN_IF_ERROR(UnmountAt(*record, record->shared_mount, /*lazily=*/true));
    rmdir(record->shared_mount.c_str());
  }
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.cut_off.unmounted">());
  RETURN_IF_ERROR(UnmapLocked(*record, {.on = true, .patience = force.patience}));
  return records_->Put(*record);
}

void Attachments::ReportCutOff(const std::string& volume) {
  std::vector<base::ObjectReference> objects;
  {
    const MutexLock lock(mutex_);
    const auto found = cut_off_.find(volume);
    if (found == cut_off_.end()) return;
    objects = std::move(found->second);
    cut_off_.erase(found);
  }
  const std::string text = fmt::format(
      "node {} reached neither the API nor the lock of volume {}, and took it off by force: end "
      "the "
      "pods that use it, so that it is attached anew",
      Quote(options_.node), Quote(volume));
  LOG_WARNING("{}", text);
  for (const auto& object : objects) {
    parts_.events.Record(object, base::EventType::kWarning, "NodeCutOff", text);
  }
}

}  // namespace berth::blockagent
