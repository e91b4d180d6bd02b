#include "node/volumes/volume_units.h"

#include <algorithm>

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "node/volumes/host_mount_pod.h"

namespace berth::node {
namespace {

using base::MutexLock;
using base::Quote;
using base::Status;
using Outcome = base::KeyedWorkers::Outcome;

// The key of a use within its unit.
std::string KeyInUnit(const UseId& id) { return id.pod_uid.text() + "/" + id.folder_name.text(); }

// A device that pods share has a unit of its own; any other volume has one for each pod.
std::string UnitKey(const std::string& device_name, std::string_view plugin, const UseId& id) {
  if (!device_name.empty()) return device_name;
  return fmt::format("{}/{}/{}", id.pod_uid.text(), plugin, id.folder_name.text());
}

std::string DriverOf(const WantedVolume& volume) {
  const volume::VolumeSpec& spec = volume.spec;
  std::string driver = spec.pv != nullptr
                           ? spec.pv->csi().driver()
                           : base::json::String(spec.pod_volume.json(), {"csi", "driver"});
  return driver.empty() ? std::string(volume.plugin->name()) : driver;
}

}  // namespace

UseId UseOf(const WantedVolume& wanted, const api::PodUid& pod) {
  UseId id{.pod_uid = pod, .folder_name = api::VolumeName(wanted.spec.folder_name())};
  id.unit = UnitKey(wanted.device_name, wanted.plugin->name(), id);
  return id;
}

UseId UseOf(const volume::PodVolumeRecord& record) {
  UseId id{.pod_uid = api::PodUid(record.pod_uid),
           .folder_name = api::VolumeName(record.folder_name)};
  id.unit = UnitKey(record.device_name, record.plugin, id);
  return id;
}

VolumeUnits::VolumeUnits(const VolumeManagerOptions& options, Dependencies dependencies)
    : refresh_interval_(options.refresh_interval),
      deps_(std::move(dependencies)),
      workers_({.name = "volumes",
                .workers = options.workers,
                .max_workers = options.max_workers,
                .retry_start = options.retry_start,
                .retry_max = options.retry_max,
                .group = [this](const std::string& key) { return namespaces_.Find(key); },
                .flight = options.flight},
               [this](const std::string& key) { return Reconcile(key); }) {}

void VolumeUnits::LoadRecords(VolumeRecords::Loaded loaded,
                              const std::vector<platform::MountEntry>& table) {
  MutexLock lock(mutex_);
  const auto unit_of = [this](const std::string& key)
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> Unit& {
    auto& slot = units_[key];
    if (slot == nullptr) slot = std::make_unique<Unit>();
    return *slot;
  };
  for (StoredDevice& device : loaded.devices) {
    Unit& unit = unit_of(device.record.device_name);
    unit.device_name = device.record.device_name;
    unit.plugin = deps_.plugins.FindByName(device.record.plugin);
    unit.needs_attach = device.needs_attach;
    unit.device = std::move(device);
  }
  for (StoredPodVolume& volume : loaded.pod_volumes) {
    const volume::PodVolumeRecord& record = volume.record;
    const UseId id = UseOf(record);
    Unit& unit = unit_of(id.unit);
    if (unit.plugin == nullptr) unit.plugin = deps_.plugins.FindByName(record.plugin);
    if (!record.device_name.empty() && !unit.device.has_value()) {
      // The device's own record is lost. The copy of it in this record is enough to unmount the
      // device.
      unit.device_name = record.device_name;
      unit.needs_attach = volume.needs_attach;
      unit.device = StoredDevice{.record = {.plugin = record.plugin,
                                            .device_name = record.device_name,
                                            .pv_name = volume.pv_name,
                                            .state = volume.device_state},
                                 .step = Step::kMounting,
                                 .needs_attach = volume.needs_attach,
                                 .boot_id = volume.boot_id};
    }
    Use& use = unit.uses[KeyInUnit(id)];
    use.pod_uid = record.pod_uid;
    if (volume.step == Step::kMounted && IsThisBoot(volume.boot_id) &&
        volume.published.has_value() && volume.published->deferred.has_value()) {
      // The handler is asked whether it has the volume each time before a container gets it.
      use.state.Apply(UseEvent::kMountStands);
      use.published = *volume.published;
    } else if (volume.step == Step::kMounted && IsThisBoot(volume.boot_id) &&
               volume.published.has_value() && volume.mount.has_value()) {
      use.published = *volume.published;
      if (IdentifyMount(table, volume.published->path) == volume.mount) {
        use.state.Apply(UseEvent::kMountStands);
      } else {
        LOG_WARNING("volume {} of pod {} is not mounted as recorded; it is set up again",
                    Quote(record.folder_name), Quote(record.pod_uid));
      }
    }
    if (volume.step == Step::kUnmounting) {
      use.state.Apply(UseEvent::kRelease);
      use.tear_down_unknown = IsThisBoot(volume.boot_id);
    }
    use.stored = std::move(volume);
  }
}

void VolumeUnits::Start() {
  workers_.Start();
  WakeAllUnits();
}

void VolumeUnits::Stop() { workers_.Stop(); }

void VolumeUnits::WantVolume(std::shared_ptr<const api::Pod> pod, WantedVolume wanted) {
  const UseId id = UseOf(wanted, api::PodUid(pod->uid()));
  bool ready = false;
  bool urgent = false;
  {
    MutexLock lock(mutex_);
    namespaces_.Set(id.unit, pod->ns());
    auto& slot = units_[id.unit];
    if (slot == nullptr) slot = std::make_unique<Unit>();
    Unit& unit = *slot;
    unit.plugin = wanted.plugin;
    unit.device_name = wanted.device_name;
    unit.needs_attach = wanted.needs_attach;
    Use& use = unit.uses[KeyInUnit(id)];
    // The pod's labels and annotations have changed, which volumes may show (downwardAPI).
    if (use.state.IsSetUp() && use.pod != nullptr && wanted.follows_api &&
        (use.pod->labels() != pod->labels() || use.pod->annotations() != pod->annotations())) {
      use.RefreshNow();
    }
    if (use.state.IsSetUp() && use.pod != nullptr && wanted.follows_api &&
        !use.volume.follows_api) {
      use.RefreshNow();
    }
    use.pod_uid = id.pod_uid.text();
    use.state.Apply(UseEvent::kWant);
    use.pod = std::move(pod);
    use.volume = std::move(wanted);
    ready = use.state.IsReady();
    urgent = unit.needs_attach;
  }
  if (ready) {
    workers_.Add(id.unit);
  } else {
    deps_.owner.ReportInUse(urgent);
    workers_.AddNow(id.unit);
  }
}

void VolumeUnits::ReleaseVolumes(const std::string& pod_uid) {
  std::vector<std::string> keys;
  {
    MutexLock lock(mutex_);
    for (auto& [key, unit] : units_) {
      for (auto& [use_key, use] : unit->uses) {
        if (use.pod_uid != pod_uid) continue;
        use.state.Apply(UseEvent::kRelease);
        keys.push_back(key);
      }
    }
  }
  for (const std::string& key : keys) workers_.AddNow(key);
}

bool VolumeUnits::IsGone(const std::string& pod_uid) const {
  MutexLock lock(mutex_);
  for (const auto& [key, unit] : units_) {
    for (const auto& [use_key, use] : unit->uses) {
      if (use.pod_uid == pod_uid) return false;
    }
  }
  return true;
}

VolumeState VolumeUnits::State(const UseId& id) const {
  MutexLock lock(mutex_);
  const auto found = units_.find(id.unit);
  if (found == units_.end()) return {};
  const auto use = found->second->uses.find(KeyInUnit(id));
  if (use == found->second->uses.end()) return {};
  return {.ready = use->second.state.IsReady(),
          .begun = use->second.attempt == Attempt::kBegun,
          .no_room = use->second.no_room,
          .published = use->second.published,
          .reason = use->second.reason};
}

std::vector<DeferredVolume> VolumeUnits::Deferred(const std::string& pod_uid) const {
  std::vector<DeferredVolume> out;
  MutexLock lock(mutex_);
  for (const auto& [key, unit] : units_) {
    for (const auto& [use_key, use] : unit->uses) {
      if (use.pod_uid != pod_uid || !use.stored.has_value() || !IsDeferred(*use.stored)) continue;
      const StoredPodVolume& stored = *use.stored;
      if (!stored.published.has_value() || !stored.published->deferred.has_value()) continue;
      out.push_back({.name = stored.names.empty() ? stored.record.folder_name : stored.names[0],
                     .socket = stored.record.sandbox->socket,
                     .target = stored.published->path,
                     .read_only = stored.published->read_only,
                     .mount = *stored.published->deferred});
    }
  }
  return out;
}

void VolumeUnits::NoteSandbox(const api::PodUid& pod, const rpc::SandboxId& sandbox) {
  std::vector<std::string> keys;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, unit] : units_) {
      for (auto& [use_key, use] : unit->uses) {
        if (use.pod_uid != pod.text() || !use.stored.has_value() || !IsDeferred(*use.stored))
          continue;
        if (std::exchange(use.sandbox_id, sandbox) == sandbox) continue;
        // This is another sandbox, whose handler may be able to grow the volume.
        unit->expand_refused = 0;
        keys.push_back(key);
      }
    }
  }
  for (const std::string& key : keys) workers_.AddNow(key);
}

std::set<std::string> VolumeUnits::Pods() const {
  std::set<std::string> out;
  MutexLock lock(mutex_);
  for (const auto& [key, unit] : units_) {
    for (const auto& [use_key, use] : unit->uses) out.insert(use.pod_uid);
  }
  return out;
}

std::set<std::string> VolumeUnits::PodsOf(const std::string& driver) const {
  std::set<std::string> out;
  MutexLock lock(mutex_);
  for (const auto& [key, unit] : units_) {
    for (const auto& [use_key, use] : unit->uses) {
      if (use.state.IsWanted() && DriverOf(use.volume) == driver) out.insert(use.pod_uid);
    }
  }
  return out;
}

std::set<std::string> VolumeUnits::DevicesInUse() const {
  std::set<std::string> out;
  MutexLock lock(mutex_);
  for (const auto& [key, unit] : units_) {
    if (unit->device_name.empty()) continue;
    const bool wanted = std::any_of(unit->uses.begin(), unit->uses.end(),
                                    [](const auto& use) { return use.second.state.IsWanted(); });
    if (wanted || unit->device.has_value()) out.insert(unit->device_name);
  }
  return out;
}

void VolumeUnits::WakeUnit(const std::string& unit) {
  {
    MutexLock lock(mutex_);
    if (!units_.contains(unit)) return;
  }
  workers_.AddNow(unit);
}

void VolumeUnits::WakeUnitsWhere(const std::function<bool(Unit&)>& condition) {
  std::vector<std::string> keys;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, unit] : units_) {
      if (condition(*unit)) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) workers_.AddNow(key);
}

void VolumeUnits::WakeAllUnits() {
  WakeUnitsWhere([](const Unit&) { return true; });
}

void VolumeUnits::RetryUnreported() {
  WakeUnitsWhere([](Unit& unit) { return std::exchange(unit.waits_for_report, false); });
}

void VolumeUnits::DriverRegistered(const std::string& driver) {
  WakeUnitsWhere([&driver](const Unit& unit) {
    const auto device = api::ParseUniqueVolumeName(unit.device_name);
    return !device.has_value() || device->driver == driver;
  });
}

void VolumeUnits::ReleaseUse(const UseId& id) {
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(id.unit);
    if (found == units_.end()) return;
    const auto use = found->second->uses.find(KeyInUnit(id));
    if (use == found->second->uses.end()) return;
    use->second.state.Apply(UseEvent::kRelease);
  }
  workers_.AddNow(id.unit);
}

void VolumeUnits::Refresh(const std::string& unit) {
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(unit);
    if (found == units_.end()) return;
    for (auto& [key, use] : found->second->uses) use.RefreshNow();
  }
  workers_.AddNow(unit);
}

std::vector<VolumeUnits::Job> VolumeUnits::FindJobs(
    const std::string& key, const std::function<bool(const Unit&, const Use&)>& condition) const {
  std::vector<Job> jobs;
  MutexLock lock(mutex_);
  const auto found = units_.find(key);
  if (found == units_.end()) return jobs;
  const Unit& unit = *found->second;
  for (const auto& [use_key, use] : unit.uses) {
    if (!condition(unit, use)) continue;
    std::optional<StoredPodVolume> stored = use.stored;
    if (stored.has_value() && IsDeferred(*stored)) {
      stored->record.sandbox->sandbox_id = use.sandbox_id.text();
    }
    jobs.push_back({.unit = key,
                    .use = use_key,
                    .pod = use.pod,
                    .volume = use.volume,
                    .stored = std::move(stored),
                    .device = unit.device,
                    .device_mounted = unit.device_mounted,
                    .plugin = unit.plugin});
  }
  return jobs;
}

void VolumeUnits::UpdateUse(const Job& job, const std::function<void(Unit&, Use&)>& change) {
  MutexLock lock(mutex_);
  const auto unit = units_.find(job.unit);
  if (unit == units_.end()) return;
  const auto use = unit->second->uses.find(job.use);
  if (use != unit->second->uses.end()) change(*unit->second, use->second);
}

Outcome VolumeUnits::Reconcile(const std::string& key) {
  Status failure = TearDownReleased(key);
  const auto keep = [&failure](const Status& status) {
    if (failure.ok()) failure = status;
  };
  const Status unmounted = FinishDeviceUnmount(key);
  keep(unmounted);
  if (unmounted.ok()) {
    keep(SetUpWanted(key));
    RecordMounted(key);
    keep(MaintainUses(key));
    keep(UnmountUnusedDevice(key));
  }
  if (!failure.ok()) return Outcome::Retry(failure);
  const auto following = FindJobs(key, [](const Unit&, const Use& use) {
    return use.state.IsSetUp() && use.volume.follows_api;
  });
  return following.empty() ? Outcome::Done() : Outcome::After(refresh_interval_);
}

void VolumeUnits::EraseUses(const std::string& key) {
  std::set<std::string> gone;
  bool in_use_changed = false;
  bool urgent = false;
  {
    MutexLock lock(mutex_);
    const auto found = units_.find(key);
    if (found == units_.end()) return;
    Unit& unit = *found->second;
    std::erase_if(unit.uses, [&gone](const auto& item) {
      const Use& use = item.second;
      if (use.state.IsWanted() || use.stored.has_value()) return false;
      gone.insert(use.pod_uid);
      return true;
    });
    if (unit.uses.empty() && !unit.device.has_value()) {
      in_use_changed = !unit.device_name.empty();
      urgent = unit.needs_attach;
      units_.erase(found);
      namespaces_.Set(key, "");
    }
  }
  for (const std::string& uid : gone) deps_.owner.NotifyPod(uid);
  if (in_use_changed) deps_.owner.ReportInUse(urgent);
}

std::map<std::string, VolumeUnits::Ready> VolumeUnits::AllReady() const {
  std::map<std::string, Ready> out;
  MutexLock lock(mutex_);
  for (const auto& [unit_key, unit] : units_) {
    for (const auto& [use_key, use] : unit->uses) {
      if (!use.state.IsReady() || !use.stored.has_value() || use.pod == nullptr) continue;
      const auto& claim = use.volume.spec.claim;
      volume::PodVolumeRecord record = use.stored->record;
      if (IsDeferred(*use.stored)) {
        if (use.sandbox_id.empty()) continue;
        record.sandbox->sandbox_id = use.sandbox_id.text();
      }
      out[fmt::format("{} {}", unit_key, use_key)] = {.plugin = use.volume.plugin,
                                                      .record = std::move(record),
                                                      .name = use.volume.spec.name,
                                                      .driver = DriverOf(use.volume),
                                                      .claim = claim == nullptr ? "" : claim->key(),
                                                      .pod = EventTarget(*use.pod)};
    }
  }
  return out;
}

base::StatusOr<std::shared_ptr<volume::VolumePlugin>> VolumeUnits::FindPlugin(
    std::string_view name) const {
  auto plugin = deps_.plugins.FindByName(name);
  if (plugin != nullptr) return plugin;
  return base::Error(base::StatusCode::kUnavailable, "this node agent has no volume plugin '{}'",
                     name);
}

}  // namespace berth::node
