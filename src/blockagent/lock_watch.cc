#include "blockagent/lock_watch.h"

#include <utility>

#include "base/log.h"

namespace berth::blockagent {

using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using Outcome = base::KeyedWorkers::Outcome;

LockWatch::LockWatch(Options options, base::EventSink& events,
                     kube::Informer<api::StorageCluster>& clusters, Attachments& attachments)
    : options_(std::move(options)),
      events_(events),
      clusters_(clusters),
      attachments_(attachments),
      clusters_queue_({.name = "lock-watch",
                       .workers = 2,
                       .max_workers = 8,
                       .retry_start = std::chrono::seconds(2),
                       .retry_max = std::chrono::minutes(1)},
                      [this](const std::string& name) { return ExchangeLocks(name); }) {}

Outcome LockWatch::ExchangeLocks(const std::string& name) {
  const auto cluster = clusters_.Get(name);
  if (cluster == nullptr) {
    LeaveLocks(name);
    return Outcome::Done();
  }
  // While it is being deleted, nodes that die still have to be proven gone.
  const base::Json settings = cluster->backend() == nullptr ? base::Json() : *cluster->backend();
  bool changed = false;
  {
    const MutexLock lock(mutex_);
    const auto found = shown_.find(name);
    changed = found != shown_.end() &&
              (found->second.uid != cluster->uid() || found->second.settings != settings);
  }
  if (changed) LeaveLocks(name);
  const Status exchanged = attachments_.ExchangeLocks(*cluster);
  const bool no_room = exchanged.code() == StatusCode::kResourceExhausted;
  const bool refused = no_room || exchanged.code() == StatusCode::kFailedPrecondition;
  const std::string refusal = refused ? std::string(base::Message(exchanged)) : "";
  bool tell = false;
  {
    const MutexLock lock(mutex_);
    Shown& shown = shown_[name];
    tell = refused && shown.refusal != refusal;
    shown = {.uid = cluster->uid(), .settings = settings, .refusal = refusal};
  }
  if (tell) {
    events_.Record(
        cluster->reference(), base::EventType::kWarning,
        no_room ? "LocksNotShown" : "LocksNotShared",
        fmt::format("node {} {}: {}", Quote(options_.node),
                    no_room ? "cannot show or note locks" : "cannot use its volumes", refusal));
  }
  return exchanged.ok() ? Outcome::After(options_.resync) : Outcome::Retry(exchanged);
}

void LockWatch::LeaveLocks(const std::string& name) {
  Shown shown;
  {
    const MutexLock lock(mutex_);
    const auto found = shown_.find(name);
    if (found == shown_.end()) return;
    shown = std::move(found->second);
    shown_.erase(found);
  }
  if (!shown.settings.is_object()) return;
  const Status left = attachments_.LeaveLocks(shown.settings, shown.uid);
  if (!left.ok()) LOG_WARNING("locks of StorageCluster {}: {}", Quote(name), base::ToString(left));
}

}  // namespace berth::blockagent
