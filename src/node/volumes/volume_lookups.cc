#include "node/volumes/volume_lookups.h"

#include "node/volumes/host_mount_pod.h"

namespace berth::node {
namespace {

using base::MutexLock;
using base::Status;
using std::chrono::steady_clock;
using Outcome = base::KeyedWorkers::Outcome;

}  // namespace

VolumeLookups::VolumeLookups(const VolumeManagerOptions& options, Dependencies dependencies)
    : wait_event_after_(options.wait_event_after),
      resolver_(dependencies.resolver),
      events_(dependencies.events),
      units_(dependencies.units),
      owner_(dependencies.owner),
      workers_({.name = "pod-volumes",
                .workers = 2,
                .retry_start = options.retry_start,
                .retry_max = options.retry_max},
               [this](const std::string& uid) { return LookUpPod(uid); }) {}

void VolumeLookups::WantVolumes(std::shared_ptr<const api::Pod> pod) {
  const std::string uid = pod->uid();
  bool ready = false;
  {
    MutexLock lock(mutex_);
    Entry& entry = pods_[uid];
    if (entry.pod == nullptr) entry.wanted_at = steady_clock::now();
    entry.names = FindUsedVolumes(*pod);
    entry.pod = std::move(pod);
    ready = entry.names.empty();
    if (ready) entry.resolved = true;
  }
  if (ready) {
    owner_.NotifyPod(uid);
  } else {
    workers_.AddNow(uid);
  }
}

void VolumeLookups::ReleaseVolumes(const std::string& pod_uid) {
  {
    MutexLock lock(mutex_);
    if (const auto found = pods_.find(pod_uid); found != pods_.end()) {
      RemoveFromIndex(pod_uid, found->second);
      pods_.erase(found);
    }
    units_.ReleaseVolumes(pod_uid);
  }
  if (units_.IsGone(pod_uid)) owner_.NotifyPod(pod_uid);
}

bool VolumeLookups::HasReleased(const std::string& pod_uid) const {
  MutexLock lock(mutex_);
  return !pods_.contains(pod_uid) && units_.IsGone(pod_uid);
}

PodVolumes VolumeLookups::State(const std::string& pod_uid) const {
  PodVolumes out;
  MutexLock lock(mutex_);
  const auto found = pods_.find(pod_uid);
  if (found == pods_.end() || !found->second.resolved) {
    out.reason = "its volumes are being looked up";
    return out;
  }
  const Entry& entry = found->second;
  bool begun = true;
  const auto waits = [&](const std::string& name, std::string_view why, bool has_begun = false) {
    if (out.reason.empty()) out.reason = fmt::format("volume '{}': {}", name, why);
    begun = begun && has_begun;
  };
  for (const std::string& name : entry.names) {
    const auto use = entry.uses.find(name);
    if (use == entry.uses.end()) {
      const auto unresolved = entry.unresolved.find(name);
      waits(name, unresolved != entry.unresolved.end() ? unresolved->second.reason
                                                       : "the pod does not define it");
      continue;
    }
    VolumeState state = units_.State(use->second);
    if (state.ready) {
      out.published.emplace(name, std::move(state.published));
    } else {
      out.no_room |= state.no_room;
      waits(name, state.reason.empty() ? "it is being set up" : state.reason, state.begun);
    }
  }
  out.ready = out.reason.empty();
  out.begun = !out.ready && begun;
  return out;
}

std::string VolumeLookups::NameOf(const std::string& pod_uid) const {
  MutexLock lock(mutex_);
  const auto found = pods_.find(pod_uid);
  return found == pods_.end() ? "" : found->second.pod->key();
}

// ---- what pods depend on ----

void VolumeLookups::LookUpPods(const std::set<std::string>& uids) {
  for (const std::string& uid : uids) workers_.AddNow(uid);
}

std::set<std::string> VolumeLookups::CountChange(const Index& index, const std::string& key) {
  ++changes_;
  const auto found = index.find(key);
  return found == index.end() ? std::set<std::string>() : found->second;
}

void VolumeLookups::ClaimChanged(const std::string& key) {
  std::set<std::string> uids;
  {
    MutexLock lock(mutex_);
    uids = CountChange(by_claim_, key);
  }
  LookUpPods(uids);
}

void VolumeLookups::VolumeChanged(const std::string& pv_name) {
  std::set<std::string> uids;
  {
    MutexLock lock(mutex_);
    uids = CountChange(by_pv_, pv_name);
  }
  LookUpPods(uids);
}

void VolumeLookups::DriverChanged(const std::string& driver) {
  {
    MutexLock lock(mutex_);
    ++changes_;  // Pods are not indexed by their drivers here, so the change only counts.
  }
  LookUpPods(units_.PodsOf(driver));
}

void VolumeLookups::PluginChanged(const std::string& plugin) {
  std::set<std::string> uids = units_.PodsOf(plugin);
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, entry] : pods_) {
      if (!entry.unresolved.empty()) uids.insert(uid);
    }
  }
  LookUpPods(uids);
}

void VolumeLookups::RemoveFromIndex(const std::string& uid, const Entry& entry) {
  const auto erase = [&uid](Index& index, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const auto found = index.find(key);
      if (found == index.end()) continue;
      found->second.erase(uid);
      if (found->second.empty()) index.erase(found);
    }
  };
  erase(by_claim_, entry.claims);
  erase(by_pv_, entry.pvs);
}

// ---- the look-up ----

Outcome VolumeLookups::LookUpPod(const std::string& uid) {
  std::shared_ptr<const api::Pod> pod;
  uint64_t changes = 0;
  {
    MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return Outcome::Done();
    pod = found->second.pod;
    changes = changes_;
  }
  ResolvedPod resolved = resolver_.Resolve(*pod, /*in_use=*/!units_.IsGone(uid));
  const Status retry = resolved.retry;
  {
    MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    // The pod was released, or it changed meanwhile and is queued again.
    if (found == pods_.end() || found->second.pod != pod) return Outcome::Done();
    Entry& entry = found->second;
    const bool followed =
        entry.resolved && resolved.claims == entry.claims && resolved.pvs == entry.pvs;
    StoreResolved(uid, entry, std::move(resolved));
    // A change during the look-up did not find the pod in the index, so the pod is looked up again.
    if (!followed && changes != changes_) workers_.AddNow(uid);
  }
  owner_.NotifyPod(uid);
  return WarnUnresolved(uid, retry);
}

void VolumeLookups::StoreResolved(const std::string& uid, Entry& entry, ResolvedPod resolved) {
  RemoveFromIndex(uid, entry);
  entry.resolved = true;
  entry.claims = std::move(resolved.claims);
  entry.pvs = std::move(resolved.pvs);
  entry.unresolved = std::move(resolved.unresolved);
  for (const std::string& claim : entry.claims) by_claim_[claim].insert(uid);
  for (const std::string& pv : entry.pvs) by_pv_[pv].insert(uid);
  for (WantedVolume& wanted : resolved.volumes) {
    const UseId use = UseOf(wanted, api::PodUid(uid));
    // The claim was replaced by another one of its name. The pod keeps a volume that is set up, and
    // a volume that is not set up is released.
    const auto old = entry.uses.find(wanted.names.front());
    if (old != entry.uses.end() && old->second.unit != use.unit) {
      if (units_.State(old->second).ready) continue;
      units_.ReleaseUse(old->second);
    }
    for (const std::string& name : wanted.names) entry.uses[name] = use;
    units_.WantVolume(entry.pod, std::move(wanted));
  }
}

Outcome VolumeLookups::WarnUnresolved(const std::string& uid, const Status& retry) {
  std::vector<std::string> messages;
  base::ObjectReference target;
  std::chrono::milliseconds later{-1};
  {
    MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return Outcome::Done();
    Entry& entry = found->second;
    target = EventTarget(*entry.pod);
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() -
                                                                              entry.wanted_at);
    for (const auto& [name, unresolved] : entry.unresolved) {
      if (entry.uses.contains(name)) continue;
      if (!unresolved.failed && waited < wait_event_after_) {
        later = wait_event_after_ - waited + std::chrono::milliseconds(1);
        continue;
      }
      std::string message = fmt::format("volume '{}': {}", name, unresolved.reason);
      if (entry.told[name] == message) continue;
      entry.told[name] = message;
      messages.push_back(std::move(message));
    }
  }
  for (const std::string& message : messages) {
    events_.Record(target, base::EventType::kWarning, "FailedMount", message);
  }
  if (!retry.ok()) return Outcome::Retry(retry);
  return later.count() > 0 ? Outcome::After(later) : Outcome::Done();
}

}  // namespace berth::node
