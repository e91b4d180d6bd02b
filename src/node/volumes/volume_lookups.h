// Looks up which volumes the node's pods want (volume_resolver.h), and hands them to the units.
//
//   WantVolumes ──▶ [looked up] ──▶ a volume that is found: VolumeUnits::WantVolume
//                     ▲    │
//                     │    └──▶ one that is not: the pod's reason, and an event if it lasts or is
//                     │         an error
//                     │
//                   a claim, PersistentVolume, driver or plugin that the pod depends on changes
//
// The dependencies are borrowed and must outlive this object. Thread-safe; no call waits for a
// volume.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "node/volumes/volume_manager.h"
#include "node/volumes/volume_parts_owner.h"
#include "node/volumes/volume_resolver.h"
#include "node/volumes/volume_units.h"

namespace berth::node {

class VolumeLookups {
 public:
  struct Dependencies {
    const VolumeResolver& resolver;
    base::EventSink& events;
    VolumeUnits& units;
    VolumePartsOwner& owner;
  };

  VolumeLookups(const VolumeManagerOptions& options, Dependencies dependencies);
  ~VolumeLookups() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

  // As in VolumeManager.
  void WantVolumes(std::shared_ptr<const api::Pod> pod);
  void ReleaseVolumes(const std::string& pod_uid);
  bool HasReleased(const std::string& pod_uid) const;
  PodVolumes State(const std::string& pod_uid) const;

  // "namespace/name" of the pod; empty: no pod with this uid has wanted volumes.
  std::string NameOf(const std::string& pod_uid) const;

  // The pods that depend on one of these are looked up again.
  void ClaimChanged(const std::string& key);
  void VolumeChanged(const std::string& pv_name);
  void DriverChanged(const std::string& driver);
  // Also the pods that have volumes that could not be looked up.
  void PluginChanged(const std::string& plugin);

 private:
  struct Entry {
    std::shared_ptr<const api::Pod> pod;
    bool resolved = false;
    std::vector<std::string> names;     // of the pod's volumes that containers use
    std::map<std::string, UseId> uses;  // of the volumes that were found, by pod volume name
    std::map<std::string, ResolvedPod::Unresolved> unresolved;
    std::vector<std::string> claims;
    std::vector<std::string> pvs;
    std::chrono::steady_clock::time_point wanted_at;
    std::map<std::string, std::string> told;  // the last event's text, by volume name
  };
  // The uids of the pods that depend on an object, by its key.
  using Index = std::map<std::string, std::set<std::string>>;

  void LookUpPods(const std::set<std::string>& uids);
  // Counts a change, and returns the uids of the pods that depend on the changed object.
  std::set<std::string> CountChange(const Index& index, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::KeyedWorkers::Outcome LookUpPod(const std::string& pod_uid);
  void StoreResolved(const std::string& uid, Entry& entry, ResolvedPod resolved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFromIndex(const std::string& uid, const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports to the pod why volumes cannot be looked up: an error at once, a wait after
  // wait_event_after_. `retry` is an error after which the look-up must be repeated.
  base::KeyedWorkers::Outcome WarnUnresolved(const std::string& uid, const base::Status& retry);

  const std::chrono::milliseconds wait_event_after_;
  const VolumeResolver& resolver_;
  base::EventSink& events_;
  VolumeUnits& units_;
  VolumePartsOwner& owner_;

  // mutex_ is taken before the units' own lock, never after it.
  mutable base::Mutex mutex_;
  std::map<std::string, Entry> pods_ ABSL_GUARDED_BY(mutex_);
  Index by_claim_ ABSL_GUARDED_BY(mutex_);
  Index by_pv_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // of claims, PVs and CSIDrivers, seen so far
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
