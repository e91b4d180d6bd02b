#include "controllers/scheduler/scheduler.h"

#include <algorithm>

#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::scheduler {

using base::KeyedWorkers;
using base::MutexLock;

namespace {

KeyedWorkers::Options QueueOptions(const char* name) {
  // There is one worker, so that each placement considers the one before.
  return {.name = name,
          .workers = 1,
          .retry_start = std::chrono::milliseconds(500),
          .retry_max = std::chrono::seconds(30)};
}

// Whether a node's change cannot matter to a placement: heartbeats, volumesInUse and the like.
bool SameForUs(const api::Node& a, const api::Node& b) {
  return a.ready() == b.ready() && a.unschedulable() == b.unschedulable() &&
         a.taints() == b.taints() && a.labels() == b.labels();
}

}  // namespace

Scheduler::Scheduler(Context context, Options options)
    : context_(context),
      options_(options),
      pods_(context.informers.Of<api::Pod>()),
      nodes_(context.informers.Of<api::Node>()),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      csi_nodes_(context.informers.Of<api::CsiNode>()),
      drivers_(context.informers.Of<api::CsiDriver>()),
      capacities_(context.informers.Of<api::CsiStorageCapacity>()),
      attachments_(context.informers.Of<api::VolumeAttachment>()),
      host_mounts_(options.host_mounts ? &context.informers.Of<api::HostMount>() : nullptr),
      pod_workers_(QueueOptions("schedule-pods"),
                   [this](const std::string& key) { return SyncPod(key); }),
      mount_workers_(QueueOptions("schedule-mounts"),
                     [this](const std::string& key) { return SyncHostMount(key); }) {
  AddPodIndexes(pods_);
  AddVolumeIndexes(volumes_);
  AddAttachmentIndexes(attachments_);
  if (host_mounts_ != nullptr) AddHostMountIndexes(*host_mounts_);
  AddHandlers();
}

Scheduler::~Scheduler() { Stop(); }

void Scheduler::RetryWaiting() {
  std::set<std::string> waiting;
  {
    MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const std::string& key : waiting) pod_workers_.Add(key);
  if (host_mounts_ == nullptr) return;
  for (const auto& mount : host_mounts_->List()) mount_workers_.Add(mount->key());
}

void Scheduler::AddHandlers() {
  pods_.AddHandler([this](const auto& change) {
    const api::Pod& pod = change.latest();
    const bool placed = change.after == nullptr || !pod.node_name().empty();
    {
      MutexLock lock(mutex_);
      if (placed) progress_.erase(pod.uid());
      if (placed) waiting_.erase(change.key);
    }
    if (!placed) pod_workers_.Add(change.key);
    // The end of a pod may help others, because of attach limits and ReadWriteOncePod.
    if (change.after == nullptr || pod.terminated()) RetryWaiting();
  });
  nodes_.AddHandler([this](const auto& change) {
    if (change.before == nullptr || change.after == nullptr ||
        !SameForUs(*change.before, *change.after)) {
      RetryWaiting();
    }
  });
  claims_.AddHandler([this](const auto& change) {
    NoteClaimChange(change.before.get(), change.after.get());
    for (const auto& pod : pods_.ByIndex(kPodsByClaim, change.key)) {
      if (pod->node_name().empty()) pod_workers_.Add(pod->key());
    }
    if (host_mounts_ == nullptr) return;
    for (const auto& mount : host_mounts_->ByIndex(kHostMountsByClaim, change.key)) {
      mount_workers_.Add(mount->key());
    }
  });
  volumes_.AddHandler([this](const auto&) { RetryWaiting(); });
  classes_.AddHandler([this](const auto&) { RetryWaiting(); });
  csi_nodes_.AddHandler([this](const auto&) { RetryWaiting(); });
  drivers_.AddHandler([this](const auto&) { RetryWaiting(); });
  capacities_.AddHandler([this](const auto&) { RetryWaiting(); });
  attachments_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) RetryWaiting();
  });
  if (host_mounts_ != nullptr) {
    host_mounts_->AddHandler([this](const auto& change) {
      if (change.after != nullptr) mount_workers_.Add(change.key);
    });
  }
}

void Scheduler::NoteClaimChange(const Claim* before, const Claim* after) {
  if (before == nullptr || after == nullptr || IsBound(*after)) return;
  const std::string node = before->annotation(kSelectedNode);
  if (node.empty() || after->has_annotation(kSelectedNode)) return;
  // The provisioner gave up on the node: the pods that wait for the claim choose anew, after a
  // pause.
  for (const auto& pod : pods_.ByIndex(kPodsByClaim, after->key())) {
    MutexLock lock(mutex_);
    const auto it = progress_.find(pod->uid());
    if (it == progress_.end()) continue;
    Progress& progress = it->second;
    progress.node.clear();
    ++progress.failed_nodes[node];
    const auto pause =
        std::min(options_.retry_start * (int64_t{1} << std::min(progress.failures++, 20)),
                 options_.retry_max);
    progress.not_before = std::chrono::steady_clock::now() + pause;
  }
}

Scheduler::Progress Scheduler::ProgressOf(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto it = progress_.find(uid);
  return it == progress_.end() ? Progress() : it->second;
}

void Scheduler::Start() {
  pod_workers_.Start();
  mount_workers_.Start();
}

void Scheduler::Stop() {
  pod_workers_.Stop();
  mount_workers_.Stop();
}

}  // namespace berth::controllers::scheduler
