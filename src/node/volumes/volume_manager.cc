#include "node/volumes/volume_manager.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "kube/informers/handler_gate.h"
#include "kube/node_reference.h"
#include "node/volumes/dead_mounts.h"
#include "node/volumes/host_mount_pod.h"
#include "node/volumes/volume_attachments.h"
#include "node/volumes/volume_expansion.h"
#include "node/volumes/volume_health.h"
#include "node/volumes/volume_in_use.h"
#include "node/volumes/volume_lookups.h"
#include "node/volumes/volume_lost_records.h"
#include "node/volumes/volume_parts_owner.h"
#include "node/volumes/volume_records.h"
#include "node/volumes/volume_refresh.h"
#include "node/volumes/volume_resolver.h"
#include "node/volumes/volume_units.h"

namespace berth::node {
namespace {

using base::OkStatus;
using base::Status;
using PodPtr = std::shared_ptr<const api::Pod>;

// The fields of a CSIDriver that decide whether NodePublishVolume is repeated for running pods, and
// with which tokens.
base::Json RepublishOf(const api::CsiDriver* driver) {
  if (driver == nullptr) return nullptr;
  return {driver->Bool({"spec", "requiresRepublish"}),
          base::json::Array(driver->json(), {"spec", "tokenRequests"})};
}

class Manager final : public VolumeManager, private VolumePartsOwner {
 public:
  Manager(VolumeManagerOptions options, kube::Client& client, kube::Informers& informers,
          volume::PluginRegistry& plugins, volume::Host& host, base::EventSink& events);
  ~Manager() override;

  Status Start(std::function<void(const std::string&)> on_change) override;
  void Stop() override;
  void WantVolumes(PodPtr pod) override { lookups_.WantVolumes(std::move(pod)); }
  void ReleaseVolumes(const std::string& pod_uid) override { lookups_.ReleaseVolumes(pod_uid); }
  bool HasReleased(const std::string& pod_uid) const override {
    return lookups_.HasReleased(pod_uid);
  }
  PodVolumes State(const std::string& pod_uid) const override { return lookups_.State(pod_uid); }
  std::vector<std::string> KnownPods() const override {
    return FindKnownPods(/*host_mounts=*/false);
  }
  std::vector<std::string> KnownHostMountPods() const override {
    return FindKnownPods(/*host_mounts=*/true);
  }
  std::vector<DeferredVolume> Deferred(const std::string& pod_uid) const override {
    return units_.Deferred(pod_uid);
  }
  void NoteSandbox(const api::PodUid& pod, const rpc::SandboxId& sandbox) override {
    units_.NoteSandbox(pod, sandbox);
  }
  void DriverRegistered(const std::string& driver) override { units_.DriverRegistered(driver); }
  void PluginChanged(const std::string& plugin) override {
    lookups_.PluginChanged(plugin);
    units_.DriverRegistered(plugin);
  }
  void OnHostMountChange(std::function<void(const std::string&)> listener) override {
    on_host_mount_change_ = std::move(listener);
  }

 private:
  // VolumePartsOwner
  void NotifyPod(const std::string& pod_uid) override;
  void ReportInUse(bool urgent) override { in_use_.ScheduleReport(urgent); }
  bool IsReportedInUse(const std::string& device_name) const override {
    return in_use_.IsReported(device_name);
  }
  void ForgetDamaged(const std::string& device_name) override {
    in_use_.ForgetDamaged(device_name);
  }
  std::set<std::string> DevicesInUse() const override { return units_.DevicesInUse(); }
  void RetryUnreported() override { units_.RetryUnreported(); }
  void FollowObjects(const std::string& unit, const api::Pod& pod,
                     const volume::VolumeSpec& spec) override {
    watches_.WatchObjects(unit, ObjectsOf(pod, spec.pod_volume));
  }
  void StopFollowing(const std::string& unit) override { watches_.UnwatchObjects(unit); }

  void AddHandlers(kube::Informers& informers);
  void NodeChanged(const api::Node* before, const api::Node* after);
  std::vector<std::string> FindKnownPods(bool host_mounts) const;
  void WarnOfNode(std::string_view reason, const std::string& message);
  void WatchMounts();
  Status LoadRecords();

  const VolumeManagerOptions options_;
  volume::PluginRegistry& plugins_;
  volume::Host& host_;
  base::EventSink& events_;
  std::function<void(const std::string&)> on_change_;
  std::function<void(const std::string&)> on_host_mount_change_;
  kube::HandlerGate<Manager> gate_;
  const VolumeResolver resolver_;
  VolumeRecords records_;
  VolumeAttachments attachments_;
  VolumeExpansion expansion_;
  CrustDeferral deferral_;
  VolumesInUse in_use_;
  ObjectWatches watches_;
  VolumeUnits units_;
  VolumeHealth health_;
  VolumeLookups lookups_;
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
      deferral_([&host](const api::KindInfo& kind, std::string_view ns,
                        std::string_view name) { return host.GetObject(kind, ns, name); },
                events, {.refuse_shared_writers = options_.refuse_shared_sandbox_writers}),
      in_use_(client, informers, options_.node_name, *this),
      watches_(client, [this](const std::string& unit) { units_.Refresh(unit); }),
      units_(options_, {.records = records_,
                        .attachments = attachments_,
                        .expansion = expansion_,
                        .deferral = deferral_,
                        .host = host,
                        .events = events,
                        .plugins = plugins_,
                        .owner = *this}),
      health_(
          options_.health_interval, [this] { return units_.AllReady(); }, events, options_.metrics),
      lookups_(options_,
               {.resolver = resolver_, .events = events, .units = units_, .owner = *this}) {
  AddHandlers(informers);
}

Manager::~Manager() {
  gate_.Close();
  Stop();
}

void Manager::AddHandlers(kube::Informers& informers) {
  gate_.Open(this);
  informers.Of<api::PersistentVolumeClaim>().AddHandler(gate_.Wrap(
      [](Manager& manager, const auto& change) { manager.lookups_.ClaimChanged(change.key); }));
  informers.Of<api::PersistentVolume>().AddHandler(gate_.Wrap(
      [](Manager& manager, const auto& change) { manager.lookups_.VolumeChanged(change.key); }));
  informers.Of<api::VolumeAttachment>().AddHandler(
      gate_.Wrap([](Manager& manager, const auto& change) {
        if (change.latest().node_name() != manager.options_.node_name) return;
        manager.lookups_.VolumeChanged(change.latest().pv_name());
      }));
  // An administrator may change these fields of a CSIDriver while pods run.
  informers.Of<api::CsiDriver>().AddHandler(gate_.Wrap([](Manager& manager, const auto& change) {
    if (RepublishOf(change.before.get()) == RepublishOf(change.after.get())) return;
    manager.lookups_.DriverChanged(change.key);
  }));
  informers.Of<api::Node>().AddHandler(gate_.Wrap([](Manager& manager, const auto& change) {
    if (change.key != manager.options_.node_name) return;
    manager.NodeChanged(change.before.get(), change.after.get());
  }));
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
  for (const std::string& name : changed) units_.WakeUnit(name);
  // A volume that this node could not reach may be reachable with its new labels.
  if (before != nullptr && after != nullptr && before->labels() != after->labels()) {
    units_.WakeAllUnits();
  }
}

void Manager::NotifyPod(const std::string& pod_uid) {
  const auto& listener = IsHostMountPod(pod_uid) ? on_host_mount_change_ : on_change_;
  if (listener) listener(pod_uid);
}

std::vector<std::string> Manager::FindKnownPods(bool host_mounts) const {
  std::vector<std::string> out;
  for (const std::string& uid : units_.Pods()) {
    if (IsHostMountPod(uid) == host_mounts) out.push_back(uid);
  }
  return out;
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
        DescribeLostMount(lost, [this](const std::string& uid) { return lookups_.NameOf(uid); });
    LOG_WARNING("{} mounts, among them {}: {}", lost.mount_points.size(),
                base::Quote(lost.mount_points.front()), why);
    units_.HandleLostMounts(lost, why);
  });
  if (watch.ok()) {
    fuse_watch_ = *std::move(watch);
  } else {
    LOG_WARNING("mounts whose FUSE server ends will not be noticed at once: {}",
                base::ToString(watch.status()));
  }
}

Status Manager::LoadRecords() {
  RETURN_IF_ERROR(records_.Open());
  ASSIGN_OR_RETURN(VolumeRecords::Loaded loaded, records_.Load());
  const auto warn = [this](std::string_view what, const platform::DamagedRecord& damaged) {
    WarnOfNode("VolumeRecordDamaged",
               fmt::format("a record of a {} could not be read and is set aside as {}: {}; its "
                           "volume may still be mounted: see 'findmnt' under {}",
                           what, base::Quote(damaged.path), base::ToString(damaged.why),
                           host_.paths().root()));
  };
  for (const platform::DamagedRecord& damaged : loaded.damaged_devices) {
    in_use_.KeepDamaged(damaged.name);
    warn("mounted volume", damaged);
  }
  for (const platform::DamagedRecord& damaged : loaded.damaged_pod_volumes) {
    warn("pod's volume", damaged);
  }
  ASSIGN_OR_RETURN(
      const std::vector<std::string> lost,
      AddLostRecords(plugins_.ListPlugins(), host_.paths(), records_.boot_id(), loaded));
  for (const std::string& volume : lost) {
    WarnOfNode("VolumeRecordLost",
               fmt::format("{} is on this node without a record; it counts as in use until it is "
                           "torn down",
                           volume));
  }
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, host_.mounter().List());
  units_.LoadRecords(std::move(loaded), table);
  return OkStatus();
}

Status Manager::Start(std::function<void(const std::string&)> on_change) {
  on_change_ = std::move(on_change);
  RETURN_IF_ERROR_WITH(LoadRecords(), "start the volume manager");
  in_use_.Start();
  units_.Start();
  health_.Start();
  lookups_.Start();
  WatchMounts();
  return OkStatus();
}

void Manager::Stop() {
  fuse_watch_.reset();
  lookups_.Stop();
  watches_.Stop();
  health_.Stop();
  units_.Stop();
  in_use_.Stop();
}

}  // namespace

std::unique_ptr<VolumeManager> NewVolumeManager(VolumeManagerOptions options, kube::Client& client,
                                                kube::Informers& informers,
                                                volume::PluginRegistry& plugins, volume::Host& host,
                                                base::EventSink& events) {
  return std::make_unique<Manager>(std::move(options), client, informers, plugins, host, events);
}

}  // namespace berth::node
