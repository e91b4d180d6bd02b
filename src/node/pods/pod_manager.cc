#include "node/pods/pod_manager.h"

#include <algorithm>

#include "base/log.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using Outcome = base::KeyedWorkers::Outcome;

// The work queue's key for the search for orphans. No pod has it, because no uid is empty.
constexpr char kOrphans[] = "";
constexpr milliseconds kFailedStopRetry{2000};
// A namespace alone gets half of them.
constexpr int kMaxTasks = 256;
constexpr int kMaxPulls = 16;

// True if the change is not only a change of the status, which this agent mostly writes itself.
bool IsRelevantChange(const api::Pod* before, const api::Pod& after) {
  if (before == nullptr) return true;
  for (const base::json::Path path : {base::json::Path{"spec"},
                                      {"metadata", "deletionTimestamp"},
                                      {"metadata", "deletionGracePeriodSeconds"},
                                      {"metadata", "labels"},
                                      {"metadata", "annotations"}}) {
    const base::Json* a = base::json::Find(before->json(), path);
    const base::Json* b = base::json::Find(after.json(), path);
    if ((a == nullptr) != (b == nullptr) || (a != nullptr && *a != *b)) return true;
  }
  return false;
}

}  // namespace

StatusOr<std::unique_ptr<PodManager>> PodManager::New(
    PodManagerOptions options, const volume::Paths& paths, kube::Client& client,
    kube::Informer<api::Pod>& pods, rpc::CriClient& cri, VolumeManager& volumes,
    platform::Mounter& mounter, base::EventSink& events, const base::Clock& clock,
    ObjectReader reader) {
  ASSIGN_OR_RETURN(auto records, PodRecords::Open(options.record_folder));
  ASSIGN_OR_RETURN(auto remembered, records->Load());
  return std::unique_ptr<PodManager>(
      new PodManager(std::move(options), paths, client, pods, cri, volumes, mounter, events, clock,
                     std::move(reader), std::move(records), std::move(remembered)));
}

PodManager::PodManager(PodManagerOptions options, const volume::Paths& paths, kube::Client& client,
                       kube::Informer<api::Pod>& pods, rpc::CriClient& cri, VolumeManager& volumes,
                       platform::Mounter& mounter, base::EventSink& events,
                       const base::Clock& clock, ObjectReader reader,
                       std::unique_ptr<PodRecords> records,
                       std::map<std::string, PodRecord> remembered)
    : options_(std::move(options)),
      reader_(std::move(reader)),
      pods_(pods),
      cri_(cri),
      volumes_(volumes),
      records_(std::move(records)),
      runtime_(cri, options_.cri_endpoint, options_.cri_lists),
      tasks_(kMaxTasks),
      pulls_(kMaxPulls),
      statuses_(client, pods, clock),
      images_(cri, pulls_, events, clock, reader_,
              [this](const std::string& uid) { RequeuePod(uid); }),
      configs_(paths, mounter, reader_),
      stopper_(cri, runtime_, tasks_, events,
               [this](const std::string& uid, const Status& status) {
                 if (status.ok()) {
                   RequeuePod(uid);
                 } else {
                   workers_.AddAfter(uid, kFailedStopRetry);
                 }
               }),
      probes_(cri, events, [this](const std::string& uid) { RequeuePod(uid); }),
      logs_(cri, clock, options_.logs, [this] { return RunningContainers(); }),
      sandbox_volumes_(options_.settings.crust_run_folder, volumes, events),
      parts_{.settings = options_.settings,
             .paths = paths,
             .client = client,
             .cri = cri,
             .runtime = runtime_,
             .volumes = volumes,
             .sandbox_volumes = sandbox_volumes_,
             .records = *records_,
             .statuses = statuses_,
             .tasks = tasks_,
             .images = images_,
             .configs = configs_,
             .stopper = stopper_,
             .probes = probes_,
             .events = events,
             .clock = clock,
             .reader = reader_,
             .requeue = [this](const std::string& uid) { RequeuePod(uid); }},
      worker_(parts_),
      remembered_(std::move(remembered)),
      workers_({.name = "pods",
                .workers = options_.workers,
                .max_workers = options_.max_workers,
                .retry_start = milliseconds(1000),
                .retry_max = milliseconds(20000),
                .group =
                    [this](const std::string& key) {
                      return key == kOrphans ? std::string() : namespaces_.Find(key);
                    }},
               [this](const std::string& key) { return ProcessKey(key); }) {}

PodManager::~PodManager() { Stop(); }

void PodManager::Start() {
  runtime_.OnReachable([this] {
    const auto [name, version] = runtime_.Version();
    options_.on_runtime(runtime_.Reachable(), fmt::format("{}://{}", name, version));
    // Every pod is queued, because some wait for the runtime, and the others must report that it is
    // lost.
    base::MutexLock lock(mutex_);
    for (const auto& [uid, input] : inputs_) workers_.AddNow(uid);
    workers_.AddNow(kOrphans);
  });
  statuses_.Start();
  probes_.Start();
  logs_.Start();
  workers_.Start();
  gate_.Open(this);
  pods_.AddHandler(
      gate_.Wrap([](PodManager& self, const auto& change) { self.OnPodChange(change); }));
  runtime_.Start([this](const std::string& uid) { OnRuntimeChange(uid); });
  workers_.AddNow(kOrphans);
}

void PodManager::Stop() {
  stopping_ = true;
  gate_.Close();
  cri_.CancelAll();
  workers_.Stop();
  tasks_.Stop();
  pulls_.Stop();
  probes_.Stop();
  logs_.Stop();
  runtime_.Stop();
  statuses_.Stop();
}

void PodManager::OnPodChange(const kube::Informer<api::Pod>::TypedChange& change) {
  const auto mine = [this](const std::shared_ptr<const api::Pod>& pod) {
    return pod != nullptr && pod->node_name() == options_.settings.node_name;
  };
  const bool replaced = change.before != nullptr && change.after != nullptr &&
                        change.before->uid() != change.after->uid();
  if (mine(change.before) && (!mine(change.after) || replaced)) {
    const std::string uid = change.before->uid();
    {
      base::MutexLock lock(mutex_);
      inputs_[uid] = {.pod = change.before, .gone = true};
    }
    workers_.AddNow(uid);
  }
  if (!mine(change.after)) return;
  const std::string uid = change.after->uid();
  namespaces_.Set(uid, change.after->ns());
  {
    base::MutexLock lock(mutex_);
    inputs_[uid] = {.pod = change.after, .gone = false};
  }
  if (IsRelevantChange(replaced ? nullptr : change.before.get(), *change.after)) {
    workers_.AddNow(uid);
  } else {
    workers_.Add(uid);
  }
}

std::vector<ContainerState> PodManager::RunningContainers() const {
  std::vector<ContainerState> out;
  for (const std::string& uid : runtime_.Pods()) {
    if (!HasOwnSandbox(uid)) continue;
    for (ContainerState& container : runtime_.Pod(uid).containers) {
      if (container.running()) out.push_back(std::move(container));
    }
  }
  return out;
}

void PodManager::RequeuePod(const std::string& uid) { workers_.AddNow(uid); }

void PodManager::OnRuntimeChange(const std::string& uid) {
  const PodRuntime runtime = runtime_.Pod(uid);
  const bool has_sandbox = std::ranges::any_of(runtime.sandboxes, &SandboxState::ready);
  bool starts = false;
  {
    base::MutexLock lock(mutex_);
    const auto input = inputs_.find(uid);
    starts = !has_sandbox && input != inputs_.end() && !input->second.gone &&
             !input->second.pod->deleting();
  }
  // The runtime may list a sandbox for a moment that it failed to make, and remove it again. That
  // is no reason to try the next one at once.
  if (starts) {
    workers_.Add(uid);
  } else {
    workers_.AddNow(uid);
  }
}

StatusOr<std::shared_ptr<const api::Pod>> PodManager::FindPod(const std::string& uid) const {
  base::MutexLock lock(mutex_);
  const auto it = inputs_.find(uid);
  if (it == inputs_.end() || it->second.pod == nullptr) {
    return base::Error(StatusCode::kNotFound, "no pod with uid '{}' is on this node", uid);
  }
  return it->second.pod;
}

PodEntry& PodManager::EntryOf(const std::string& uid) {
  auto& entry = entries_[uid];
  if (entry == nullptr) {
    entry = std::make_unique<PodEntry>();
    entry->uid = uid;
    if (const auto known = remembered_.find(uid); known != remembered_.end()) {
      entry->record = std::move(known->second);
      remembered_.erase(known);
    }
  }
  return *entry;
}

bool PodManager::HasOwnSandbox(const std::string& uid) const {
  const PodRuntime runtime = runtime_.Pod(uid);
  return std::any_of(runtime.sandboxes.begin(), runtime.sandboxes.end(),
                     [this](const SandboxState& s) { return s.agent == options_.settings.agent; });
}

Outcome PodManager::FindOrphans() {
  // Until the informer has its first list, the agent does not know which pods the API has.
  if (!pods_.synced()) return Outcome::After(kube::kSyncCheckInterval);
  std::set<std::string> orphans;
  for (const std::string& uid : runtime_.Pods()) {
    if (HasOwnSandbox(uid)) orphans.insert(uid);
  }
  for (const std::string& uid : volumes_.KnownPods()) {
    orphans.insert(uid);
  }
  base::MutexLock lock(mutex_);
  for (const auto& [uid, record] : remembered_) orphans.insert(uid);
  for (const std::string& uid : orphans) {
    if (inputs_.contains(uid)) continue;
    const auto known = remembered_.find(uid);
    inputs_[uid] = {.pod = known == remembered_.end() ? nullptr : known->second.pod, .gone = true};
    namespaces_.Set(uid,
                    inputs_[uid].pod == nullptr ? runtime_.Pod(uid).ns : inputs_[uid].pod->ns());
    LOG_INFO("pod {} is gone from the API: tearing it down", base::Quote(uid));
    workers_.AddNow(uid);
  }
  return Outcome::Done();
}

Outcome PodManager::ProcessKey(const std::string& key) {
  // While the manager stops, its calls to the runtime are cancelled, and such a failure says
  // nothing about the pod.
  if (stopping_) return Outcome::Done();
  if (key == kOrphans) return FindOrphans();
  PodEntry* entry = nullptr;
  {
    base::MutexLock lock(mutex_);
    const auto input = inputs_.find(key);
    if (input == inputs_.end()) {
      // The runtime or the volume manager knows a pod that the API does not.
      workers_.AddNow(kOrphans);
      return Outcome::Done();
    }
    entry = &EntryOf(key);
    if (input->second.pod != nullptr) entry->pod = input->second.pod;
    entry->gone = input->second.gone;
  }
  Outcome outcome = worker_.SyncPod(*entry);
  if (entry->finished && entry->gone) {
    base::MutexLock lock(mutex_);
    inputs_.erase(key);
    entries_.erase(key);
    namespaces_.Set(key, "");
  }
  return outcome;
}

}  // namespace berth::node
