#include "node/hostmounts/host_mounts.h"

#include <algorithm>

#include "base/log.h"
#include "kube/node_reference.h"
#include "node/volumes/host_mount_pod.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Error;
using base::Json;
using base::MutexLock;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Outcome = base::KeyedWorkers::Outcome;

constexpr const char* kVolume = "volume";

}  // namespace

HostMounts::HostMounts(HostMountsOptions options, kube::Client& client, kube::Informers& informers,
                       VolumeManager& volumes, volume::Host& host, base::EventSink& events)
    : options_(std::move(options)),
      client_(client),
      volumes_(volumes),
      host_(host),
      events_(events),
      mounts_(informers.Of<api::HostMount>()),
      claims_(informers.Of<api::PersistentVolumeClaim>()),
      targets_(options_.state_folder, options_.own_folder, host.mounter()),
      workers_({.name = "host-mounts",
                // A HostMount whose path leads through a dead file system holds its worker for
                // seconds.
                .workers = 4,
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max,
                .flight = options_.flight},
               [this](const std::string& key) { return Reconcile(key); }) {
  volumes_.OnHostMountChange([this](const std::string& pod_uid) { VolumeChanged(pod_uid); });
  gate_.Open(this);
  mounts_.AddHandler(gate_.Wrap([](HostMounts& self, const auto& change) {
    if (change.latest().node_name() == self.options_.node_name) self.workers_.Add(change.key);
  }));
}

HostMounts::~HostMounts() {
  gate_.Close();
  Stop();
}

Status HostMounts::Start() {
  const StatusOr<platform::LoadedRecords<HostMountRecord>> loaded = targets_.Open();
  RETURN_IF_ERROR_WITH(loaded, "read the records of host mounts");
  for (const platform::DamagedRecord& damaged : loaded->damaged) {
    events_.Record(kube::NodeReference(options_.node_name), base::EventType::kWarning,
                   "VolumeRecordDamaged",
                   fmt::format("a record of a host mount could not be read and is set aside as {}: "
                               "{}; its volume may still be mounted: see 'findmnt'",
                               base::Quote(damaged.path), base::ToString(damaged.why)));
  }
  for (const HostMountRecord& record : loaded->records) KeepRecord(record);
  ReleaseUnknownPods();
  workers_.Start();
  for (const HostMountRecord& record : loaded->records) workers_.AddNow(record.key);
  return OkStatus();
}

void HostMounts::Stop() { workers_.Stop(); }

// Releases the volumes of HostMounts that are gone both from the records here and from the API.
void HostMounts::ReleaseUnknownPods() {
  const auto all = mounts_.List();
  for (const std::string& pod_uid : volumes_.KnownHostMountPods()) {
    const bool present = std::any_of(all.begin(), all.end(), [&](const MountPtr& mount) {
      return HostMountPodUid(mount->uid()) == pod_uid;
    });
    bool recorded = false;
    {
      MutexLock lock(mutex_);
      recorded = std::any_of(records_.begin(), records_.end(), [&](const auto& item) {
        return HostMountPodUid(item.first) == pod_uid;
      });
    }
    if (!present && !recorded) volumes_.ReleaseVolumes(pod_uid);
  }
}

void HostMounts::VolumeChanged(const std::string& pod_uid) {
  std::string key;
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, mount_key] : keys_) {
      if (HostMountPodUid(uid) == pod_uid) key = mount_key;
    }
  }
  if (!key.empty()) workers_.AddNow(key);
}

std::optional<HostMountRecord> HostMounts::RecordOf(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto found = records_.find(uid);
  return found == records_.end() ? std::nullopt : std::optional(found->second);
}

void HostMounts::KeepRecord(const HostMountRecord& record) {
  MutexLock lock(mutex_);
  records_[record.uid] = record;
  keys_[record.uid] = record.key;
}

void HostMounts::ForgetMount(const std::string& uid) {
  MutexLock lock(mutex_);
  records_.erase(uid);
  keys_.erase(uid);
}

Outcome HostMounts::Reconcile(const std::string& key) {
  const MountPtr mount = mounts_.Get(key);
  const bool mine = mount != nullptr && mount->node_name() == options_.node_name;
  const Status cleaned = CleanUpForgotten(key, mine ? mount->uid() : "");
  if (!mine) return Outcome::From(cleaned);
  {
    MutexLock lock(mutex_);
    keys_[mount->uid()] = key;
  }
  Status done = mount->deleting() ? FinishMount(*mount) : EstablishMount(*mount);
  if (done.ok()) done = cleaned;
  // The object itself is wrong, so another try before its next change cannot help.
  if (done.code() == StatusCode::kInvalidArgument) return Outcome::Done();
  return Outcome::From(done);
}

// Cleans up HostMounts of this key that are gone from the API although the finalizer should have
// kept them.
Status HostMounts::CleanUpForgotten(const std::string& key, const std::string& present_uid) {
  std::vector<std::string> uids;
  {
    MutexLock lock(mutex_);
    for (const auto& [uid, mount_key] : keys_) {
      if (mount_key == key && uid != present_uid) uids.push_back(uid);
    }
  }
  for (const std::string& uid : uids) {
    ASSIGN_OR_RETURN(const bool undone, UndoMount(uid));
    if (undone) ForgetMount(uid);
  }
  return OkStatus();
}

StatusOr<bool> HostMounts::UndoMount(const std::string& uid) {
  if (const auto record = RecordOf(uid); record.has_value()) {
    RETURN_IF_ERROR(targets_.Unmount(*record));
    MutexLock lock(mutex_);
    records_.erase(uid);
  }
  {
    MutexLock lock(mutex_);
    wanted_.erase(uid);
  }
  const std::string pod_uid = HostMountPodUid(uid);
  // ReleaseVolumes is called only if the volume is not released yet, because each call is followed
  // by VolumeChanged, which leads here again.
  if (!volumes_.HasReleased(pod_uid)) volumes_.ReleaseVolumes(pod_uid);
  if (!volumes_.HasReleased(pod_uid)) return false;
  RETURN_IF_ERROR(platform::RemoveTree(host_.paths().Pod(pod_uid)));
  return true;
}

Status HostMounts::FinishMount(const api::HostMount& mount) {
  const StatusOr<bool> undone = UndoMount(mount.uid());
  if (!undone.ok()) {
    const std::string message(base::Message(undone.status()));
    events_.Record(mount.reference(), base::EventType::kWarning, "FailedUnmount", message);
    RETURN_IF_ERROR(SetStatus(mount, mount.phase(), message));
    return undone.status();
  }
  if (!*undone) return SetStatus(mount, "Pending", "its volume is being released");
  ForgetMount(mount.uid());
  return PutFinalizer(mount, /*present=*/false);
}

std::shared_ptr<const api::Pod> HostMounts::PodOf(const api::HostMount& mount) const {
  return std::make_shared<const api::Pod>(
      Json{{"apiVersion", api::kinds::kHostMount.api_version()},
           {"kind", api::kinds::kHostMount.kind},
           {"metadata",
            {{"name", mount.name()},
             {"namespace", mount.ns()},
             {"uid", HostMountPodUid(mount.uid())},
             {"annotations", {{std::string(kHostMountUidAnnotation), mount.uid()}}}}},
           {"spec",
            {{"nodeName", options_.node_name},
             {"volumes",
              {{{"name", kVolume},
                {"persistentVolumeClaim",
                 {{"claimName", mount.claim_name()}, {"readOnly", mount.read_only()}}}}}},
             {"containers",
              {{{"name", "host"},
                {"volumeMounts", {{{"name", kVolume}, {"mountPath", mount.path()}}}}}}}}}});
}

Status HostMounts::EstablishMount(const api::HostMount& mount) {
  Status fit = CheckHostPath(mount.path(), options_.own_folder);
  const auto claim = claims_.Get(mount.ns(), mount.claim_name());
  if (fit.ok() && claim != nullptr && claim->volume_mode() == "Block") {
    fit = Error(StatusCode::kInvalidArgument,
                "claim '{}' is a raw block device: only file systems are mounted on the host",
                claim->name());
  }
  if (!fit.ok()) {
    events_.Record(mount.reference(), base::EventType::kWarning, "FailedMount", base::Message(fit));
    RETURN_IF_ERROR(SetStatus(mount, "Pending", base::Message(fit)));
    return fit;
  }
  RETURN_IF_ERROR(PutFinalizer(mount, /*present=*/true));
  std::optional<HostMountRecord> record = RecordOf(mount.uid());
  if (record.has_value() &&
      (record->path != mount.path() || record->read_only != mount.read_only())) {
    RETURN_IF_ERROR(targets_.Unmount(*record));
    MutexLock lock(mutex_);
    records_.erase(mount.uid());
    record.reset();
  }
  const auto pod = PodOf(mount);
  bool changed = false;
  {
    MutexLock lock(mutex_);
    base::Json& wanted = wanted_[mount.uid()];
    changed = wanted != pod->json();
    wanted = pod->json();
  }
  if (changed) volumes_.WantVolumes(pod);
  const PodVolumes state = volumes_.State(pod->uid());
  if (!state.ready) {
    // After a restart, or while the claim is being deleted, an existing mount stays.
    if (record.has_value() && record->mounted && targets_.IsMounted(*record).value_or(false)) {
      return SetStatus(mount, "Mounted", "");
    }
    return SetStatus(mount, "Pending", state.reason);
  }
  if (!record.has_value()) {
    record = HostMountRecord{.uid = mount.uid(),
                             .key = mount.key(),
                             .path = mount.path(),
                             .read_only = mount.read_only()};
  }
  const Status mounted = targets_.Mount(*record, state.published.at(kVolume).path);
  if (!record->boot_id.empty()) KeepRecord(*record);
  if (!mounted.ok()) {
    events_.Record(mount.reference(), base::EventType::kWarning, "FailedMount",
                   base::Message(mounted));
    RETURN_IF_ERROR(SetStatus(mount, "Pending", base::Message(mounted)));
    // A person has to clear the path. That cannot be watched here, so the mount is tried again.
    return mounted;
  }
  if (mount.phase() != "Mounted") {
    events_.Record(mount.reference(), base::EventType::kNormal, "SuccessfulMountVolume",
                   fmt::format("claim '{}' is mounted at '{}'", mount.claim_name(), mount.path()));
  }
  return SetStatus(mount, "Mounted", "");
}

Status HostMounts::PutFinalizer(const api::HostMount& mount, bool present) {
  if (mount.has_finalizer(kHostMountFinalizer) == present) return OkStatus();
  api::HostMount changed(mount);
  if (present) {
    changed.add_finalizer(kHostMountFinalizer);
  } else {
    changed.remove_finalizer(kHostMountFinalizer);
  }
  // The patch replaces the whole list, so it has the resourceVersion that was read.
  const auto written = kube::MergePatch(
      client_, mount,
      {{"metadata",
        {{"resourceVersion", mount.resource_version()}, {"finalizers", changed.finalizers()}}}});
  if (!present && written.status().code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR_WITH(written, fmt::format("write the finalizer of host mount '{}'", mount.key()));
  if (present) mounts_.Observe(written->json());
  return OkStatus();
}

Status HostMounts::SetStatus(const api::HostMount& mount, std::string_view phase,
                             std::string_view message) {
  const MountPtr now = mounts_.Get(mount.key());
  const api::HostMount& known = now != nullptr && now->uid() == mount.uid() ? *now : mount;
  if (known.String({"status", "phase"}) == phase && known.message() == message) return OkStatus();
  const auto written = kube::MergePatch(
      client_, mount, {{"status", {{"phase", phase}, {"message", message}}}}, "status");
  RETURN_IF_ERROR_WITH(written, fmt::format("write the status of host mount '{}'", mount.key()));
  mounts_.Observe(written->json());
  return OkStatus();
}

}  // namespace berth::node
