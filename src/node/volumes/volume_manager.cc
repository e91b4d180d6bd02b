#include "node/volumes/volume_manager.h"

#include <algorithm>
#include <set>

#include "base/keyed_workers.h"
#include "base/log.h"
#include "base/mutex.h"
#include "kube/handler_gate.h"
#include "kube/node_reference.h"
#include "node/volumes/dead_mounts.h"
#include "node/volumes/host_mount_pod.h"
#include "node/volumes/volume_attachments.h"
#include "node/volumes/volume_expansion.h"
#include "node/volumes/volume_health.h"
#include "node/volumes/volume_in_use.h"
#include "node/volumes/volume_lost_records.h"
#include "node/volumes/volume_records.h"
#include "node/volumes/volume_refresh.h"
#include "node/volumes/volume_resolver.h"
#include "node/volumes/volume_units.h"

namespace berth::node {
namespace {

using base::MutexLock;
using base::OkStatus;
using base::Status;
using std::chrono::steady_clock;
using Outcome = base::KeyedWorkers::Outcome;
using PodPtr = std::shared_ptr<const api::Pod>;

// What of a CSIDriver decides on NodePublishVolume of pods that run.
base::Json RepublishOf(const api::CsiDriver* driver) {
  if (driver == nullptr) return nullptr;
  return {driver->Bool({"spec", "requiresRepublish"}),
          base::json::Array(driver->json(), {"spec", "tokenRequests"})};
}

class Manager : public VolumeManager {
 public:
  Manager(VolumeManagerOptions options, kube::Client& client, kube::Informers& informers,
          volume::PluginRegistry& plugins, volume::Host& host, base::EventSink& events);
  ~Manager() override;

  Status Start(std::function<void(const std::string&)> on_change) override;
  void Stop() override;
  void Want(PodPtr pod) override;
  void Release(const std::string& pod_uid) override;
  bool Released(const std::string& pod_uid) const override;
  PodVolumes State(const std::string& pod_uid) const override;
  std::vector<std::string> KnownPods() const override { return Known(/*host_mounts=*/false); }
  std::vector<std::string> KnownHostMountPods() const override {
    return Known(/*host_mounts=*/true);
  }
  std::vector<DeferredVolume> Deferred(const std::string& pod_uid) const override {
    return units_.Deferred(pod_uid);
  }
  void Placed(const std::string& pod_uid, const std::string& sandbox_id) override {
    units_.Placed(pod_uid, sandbox_id);
  }
  void DriverRegistered(const std::string& driver) override { units_.DriverRegistered(driver); }
  void PluginChanged(const std::string& plugin) override;
  void OnHostMountChange(std::function<void(const std::string&)> listener) override {
    on_host_mount_change_ = std::move(listener);
  }

 private:
  struct Place {
    std::string unit;
    std::string folder_name;
  };
  struct Entry {
    PodPtr pod;
    bool resolved = false;
    std::vector<std::string> names;  // of its volumes that containers use
    std::map<std::string, Place> places;
    std::map<std::string, ResolvedPod::Unresolved> unresolved;
    std::vector<std::string> claims;
    std::vector<std::string> pvs;
    steady_clock::time_point wanted_at;
    std::map<std::string, std::string> told;  // the last event's text, by volume name
  };
  using Index = std::map<std::string, std::set<std::string>>;

  void AddHandlers(kube::Informers& informers);
  // Pods that depend on a claim (by its key) or on a PersistentVolume (by its name).
  void ResolveAll(const std::string& key, bool by_claim);
  // Of something that pods are not indexed by here.
  void CountChange() ABSL_LOCKS_EXCLUDED(mutex_);
  void NodeChanged(const api::Node* before, const api::Node* after);
  void Notify(const std::string& pod_uid) const;
  std::vector<std::string> Known(bool host_mounts) const;
  void WarnOfNode(std::string_view reason, const std::string& message);
  void WatchMounts();
  // "namespace/name"; empty: no pod of this node.
  std::string NameOf(const std::string& pod_uid) const;
  Status LoadRecords();
  void Follow(const std::string& unit, const PodPtr& pod, const volume::VolumeSpec& spec);

  Outcome Resolve(const std::string& pod_uid);
  void Adopt(const std::string& uid, Entry& entry, ResolvedPod resolved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outcome Tell(const std::string& uid, const Status& retry);
  void Unindex(const std::string& uid, const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const VolumeManagerOptions options_;
  volume::PluginRegistry& plugins_;
  volume::Host& host_;
  base::EventSink& events_;
  std::function<void(const std::string&)> on_change_;
  std::function<void(const std::string&)> on_host_mount_change_;
  kube::HandlerGate<Manager> gate_;
  VolumeResolver resolver_;
  VolumeRecords records_;
  VolumeAttachments attachments_;
  VolumeExpansion expansion_;
  CrustDeferral deferral_;

  // mutex_ is taken before the units' own lock, never after it.
  mutable base::Mutex mutex_;
  std::map<std::string, Entry> pods_ ABSL_GUARDED_BY(mutex_);
  Index by_claim_ ABSL_GUARDED_BY(mutex_);
  Index by_pv_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // of what pods may depend on, seen so far

  VolumesInUse in_use_;
  ObjectWatches watches_;
  VolumeUnits units_;
  VolumeHealth health_;
  base::KeyedWorkers resolvers_;
  std::unique_ptr<platform::FuseWatch> fuse_watch_;
};

Manager::Manager(VolumeManagerOptions options, kube::Client& client, kube::Informers& informers,
                 volume::PluginRegistry& plugins, volume::Host& host, base::EventSink& events)
    : options_(std::move(options)),
      plugins_(plugins),
      host_(host),
      events_(events),
      resolver_(informers, plugins_, host),
      records_(options_.state_folder),
      attachments_(informers, options_.node_name),
      expansion_(client, informers, events),
      deferral_(host, events, options_.refuse_shared_sandbox_writers),
      in_use_(
          client, informers, options_.node_name, [this] { return units_.DevicesInUse(); },
          [this] { units_.InUseReported(); }),
      watches_(client, [this](const std::string& unit) { units_.Refresh(unit); }),
      units_(options_,
             {.records = records_,
              .attachments = attachments_,
              .expansion = expansion_,
              .deferral = deferral_,
              .host = host,
              .events = events,
              .plugins = plugins_,
              .on_change = [this](const std::string& uid) { Notify(uid); },
              .in_use_changed = [this](bool urgent) { in_use_.Changed(urgent); },
              .in_use_reported =
                  [this](const std::string& device) { return in_use_.Reported(device); },
              .device_unmounted = [this](const std::string& device) { in_use_.Unmounted(device); },
              .follow = [this](const std::string& unit, PodPtr pod,
                               const volume::VolumeSpec& spec) { Follow(unit, pod, spec); }}),
      health_(
          options_.health_interval, [this] { return units_.AllReady(); }, events, options_.metrics),
      resolvers_({.name = "pod-volumes",
                  .workers = 2,
                  .retry_start = options_.retry_start,
                  .retry_max = options_.retry_max},
                 [this](const std::string& uid) { return Resolve(uid); }) {
  AddHandlers(informers);
}

Manager::~Manager() {
  gate_.Close();
  Stop();
}

void Manager::AddHandlers(kube::Informers& informers) {
  gate_.Open(this);
  informers.Of<api::PersistentVolumeClaim>().AddHandler(
      gate_.Wrap([](Manager& manager, const auto& change) {
        manager.ResolveAll(change.key, /*by_claim=*/true);
      }));
  informers.Of<api::PersistentVolume>().AddHandler(
      gate_.Wrap([](Manager& manager, const auto& change) {
        manager.ResolveAll(change.key, /*by_claim=*/false);
      }));
  informers.Of<api::VolumeAttachment>().AddHandler(
      gate_.Wrap([](Manager& manager, const auto& change) {
        if (change.latest().node_name() != manager.options_.node_name) return;
        manager.ResolveAll(change.latest().pv_name(), /*by_claim=*/false);
      }));
  // Whether a driver's volumes are published again and again, and with which tokens, may be
  // switched while pods run.
  informers.Of<api::CsiDriver>().AddHandler(gate_.Wrap([](Manager& manager, const auto& change) {
    if (RepublishOf(change.before.get()) == RepublishOf(change.after.get())) return;
    manager.CountChange();
    for (const std::string& uid : manager.units_.PodsOf(change.key)) manager.resolvers_.AddNow(uid);
  }));
  informers.Of<api::Node>().AddHandler(gate_.Wrap([](Manager& manager, const auto& change) {
    if (change.key != manager.options_.node_name) return;
    manager.NodeChanged(change.before.get(), change.after.get());
  }));
}

void Manager::ResolveAll(const std::string& key, bool by_claim) {
  std::set<std::string> uids;
  {
    MutexLock lock(mutex_);
    ++changes_;
    const Index& index = by_claim ? by_claim_ : by_pv_;
    if (const auto found = index.find(key); found != index.end()) uids = found->second;
  }
  for (const std::string& uid : uids) resolvers_.AddNow(uid);
}

void Manager::CountChange() {
  MutexLock lock(mutex_);
  ++changes_;
}

void Manager::NodeChanged(const api::Node* before, const api::Node* after) {
  const auto attached = [](const api::Node* node) {
    const std::vector<std::string> names =
        node == nullptr ? std::vector<std::string>{} : node->volumes_attached();
    return std::set<std::string>(names.begin(), names.end());
  };
  std::vector<std::string> changed;
  const std::set<std::string> old_names = attached(before);
  const std::set<std::string> new_names = attached(after);
  std::set_symmetric_difference(old_names.begin(), old_names.end(), new_names.begin(),
                                new_names.end(), std::back_inserter(changed));
  for (const std::string& name : changed) units_.Poke(name);
  // A volume that could not be reached from here may be, by a label that is new.
  if (before != nullptr && after != nullptr && before->labels() != after->labels()) {
    units_.PokeAll();
  }
}

void Manager::Notify(const std::string& pod_uid) const {
  const auto& listener = IsHostMountPod(pod_uid) ? on_host_mount_change_ : on_change_;
  if (listener) listener(pod_uid);
}

std::vector<std::string> Manager::Known(bool host_mounts) const {
  std::vector<std::string> out;
  for (const std::string& uid : units_.Pods()) {
    if (IsHostMountPod(uid) == host_mounts) out.push_back(uid);
  }
  return out;
}

void Manager::Follow(const std::string& unit, const PodPtr& pod, const volume::VolumeSpec& spec) {
  if (pod == nullptr) {
    watches_.Clear(unit);
  } else {
    watches_.Set(unit, ObjectsOf(*pod, spec.pod_volume));
  }
}

void Manager::WarnOfNode(std::string_view reason, const std::string& message) {
  LOG_ERROR("{}", message);
  events_.Record(kube::NodeReference(options_.node_name), base::EventType::kWarning, reason,
                 message);
}

void Manager::WatchMounts() {
  auto watch = host_.WatchFuse([this](const platform::LostFuse& lost) {
    if (options_.metrics != nullptr) {
      options_.metrics->Count(
          {.name = "berth_fuse_servers_lost_total",
           .help = "FUSE servers that ended while volumes of theirs were mounted."},
          {});
    }
    const std::string why =
        DescribeLost(lost, [this](const std::string& uid) { return NameOf(uid); });
    LOG_WARNING("{} mounts, among them {}: {}", lost.mount_points.size(),
                base::Quote(lost.mount_points.front()), why);
    units_.MountsLost(lost, why);
  });
  if (watch.ok()) {
    fuse_watch_ = *std::move(watch);
  } else {
    LOG_WARNING("mounts whose FUSE server ends will not be noticed at once: {}",
                base::ToString(watch.status()));
  }
}

std::string Manager::NameOf(const std::string& pod_uid) const {
  MutexLock lock(mutex_);
  const auto found = pods_.find(pod_uid);
  return found == pods_.end() ? "" : found->second.pod->key();
}

Status Manager::LoadRecords() {
  RETURN_IF_ERROR(records_.Open());
  ASSIGN_OR_RETURN(VolumeRecords::Loaded loaded, records_.Load());
  for (const DamagedRecord& damaged : loaded.damaged) {
    if (damaged.device) in_use_.KeepDamaged(damaged.digest);
    const std::string message = fmt::format(
        "a record of a {} could not be read and is set aside as {}: {}; what it stood for may "
        "still be mounted: see 'findmnt' under {}",
        damaged.device ? "mounted volume" : "pod's volume", base::Quote(damaged.file),
        base::ToString(damaged.why), host_.paths().root());
    WarnOfNode("VolumeRecordDamaged", message);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> lost,
                   AddLostRecords(plugins_.All(), host_.paths(), records_.boot_id(), loaded));
  for (const std::string& volume : lost) {
    WarnOfNode("VolumeRecordLost",
               fmt::format("{} is on this node without a record; it is taken for one that is in "
                           "use until it is torn down",
                           volume));
  }
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, host_.mounter().List());
  units_.Load(std::move(loaded), table);
  return OkStatus();
}

Status Manager::Start(std::function<void(const std::string&)> on_change) {
  on_change_ = std::move(on_change);
  RETURN_IF_ERROR_WITH(LoadRecords(), "start the volume manager");
  in_use_.Start();
  units_.Start();
  health_.Start();
  resolvers_.Start();
  WatchMounts();
  return OkStatus();
}

void Manager::Stop() {
  fuse_watch_.reset();
  resolvers_.Stop();
  watches_.Stop();
  health_.Stop();
  units_.Stop();
  in_use_.Stop();
}

void Manager::Want(PodPtr pod) {
  const std::string uid = pod->uid();
  bool ready = false;
  {
    MutexLock lock(mutex_);
    Entry& entry = pods_[uid];
    if (entry.pod == nullptr) entry.wanted_at = steady_clock::now();
    entry.names = UsedVolumes(*pod);
    entry.pod = std::move(pod);
    ready = entry.names.empty();
    if (ready) entry.resolved = true;
  }
  if (ready) {
    Notify(uid);
  } else {
    resolvers_.AddNow(uid);
  }
}

void Manager::PluginChanged(const std::string& plugin) {
  std::set<std::string> uids = units_.PodsOf(plugin);
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, entry] : pods_) {
      if (!entry.unresolved.empty()) uids.insert(uid);
    }
  }
  for (const std::string& uid : uids) resolvers_.AddNow(uid);
  units_.DriverRegistered(plugin);
}

void Manager::Unindex(const std::string& uid, const Entry& entry) {
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

void Manager::Release(const std::string& pod_uid) {
  {
    MutexLock lock(mutex_);
    if (const auto found = pods_.find(pod_uid); found != pods_.end()) {
      Unindex(pod_uid, found->second);
      pods_.erase(found);
    }
    units_.Release(pod_uid);
  }
  if (units_.Gone(pod_uid)) Notify(pod_uid);
}

bool Manager::Released(const std::string& pod_uid) const {
  MutexLock lock(mutex_);
  return !pods_.contains(pod_uid) && units_.Gone(pod_uid);
}

PodVolumes Manager::State(const std::string& pod_uid) const {
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
    const auto place = entry.places.find(name);
    if (place == entry.places.end()) {
      const auto unresolved = entry.unresolved.find(name);
      waits(name, unresolved != entry.unresolved.end() ? unresolved->second.reason
                                                       : "the pod does not define it");
      continue;
    }
    VolumeState state = units_.State(place->second.unit, pod_uid, place->second.folder_name);
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

Outcome Manager::Resolve(const std::string& uid) {
  PodPtr pod;
  uint64_t changes = 0;
  {
    MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return Outcome::Done();
    pod = found->second.pod;
    changes = changes_;
  }
  ResolvedPod resolved = resolver_.Resolve(*pod, /*in_use=*/!units_.Gone(uid));
  const Status retry = resolved.retry;
  {
    MutexLock lock(mutex_);
    const auto found = pods_.find(uid);
    // Released, or changed meanwhile, in which case it is queued again.
    if (found == pods_.end() || found->second.pod != pod) return Outcome::Done();
    Entry& entry = found->second;
    const bool followed =
        entry.resolved && resolved.claims == entry.claims && resolved.pvs == entry.pvs;
    Adopt(uid, entry, std::move(resolved));
    // What changed after it was read and before it was indexed found nobody to tell.
    if (!followed && changes != changes_) resolvers_.AddNow(uid);
  }
  Notify(uid);
  return Tell(uid, retry);
}

void Manager::Adopt(const std::string& uid, Entry& entry, ResolvedPod resolved) {
  Unindex(uid, entry);
  entry.resolved = true;
  entry.claims = std::move(resolved.claims);
  entry.pvs = std::move(resolved.pvs);
  entry.unresolved = std::move(resolved.unresolved);
  for (const std::string& claim : entry.claims) by_claim_[claim].insert(uid);
  for (const std::string& pv : entry.pvs) by_pv_[pv].insert(uid);
  for (WantedVolume& wanted : resolved.volumes) {
    const Place place{
        .unit = UnitKey(wanted.device_name, uid, wanted.plugin->name(), wanted.spec.folder_name()),
        .folder_name = wanted.spec.folder_name()};
    // The claim was replaced by another of its name: a volume that is set up stays the pod's, one
    // that is not is let go.
    const auto old = entry.places.find(wanted.names.front());
    if (old != entry.places.end() && old->second.unit != place.unit) {
      if (units_.State(old->second.unit, uid, old->second.folder_name).ready) continue;
      units_.ReleaseUse(old->second.unit, uid, old->second.folder_name);
    }
    for (const std::string& name : wanted.names) entry.places[name] = place;
    units_.Want(entry.pod, std::move(wanted));
  }
}

// Tells the pod why volumes cannot be looked up: errors at once, waits when they have lasted.
Outcome Manager::Tell(const std::string& uid, const Status& retry) {
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
      if (entry.places.contains(name)) continue;
      if (!unresolved.failed && waited < options_.wait_event_after) {
        later = options_.wait_event_after - waited + std::chrono::milliseconds(1);
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

}  // namespace

std::unique_ptr<VolumeManager> NewVolumeManager(VolumeManagerOptions options, kube::Client& client,
                                                kube::Informers& informers,
                                                volume::PluginRegistry& plugins, volume::Host& host,
                                                base::EventSink& events) {
  return std::make_unique<Manager>(std::move(options), client, informers, plugins, host, events);
}

}  // namespace berth::node
