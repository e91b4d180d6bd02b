// The part of Attachments that detaches volumes, and compares records with the fence, the pods and
// the image (Reconcile).

#include <unistd.h>

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "blockagent/attachments.h"
#include "blockagent/mount_point.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::MountEntry;

// This agent never makes more mounts than this at one path.
constexpr int kMostStacked = 16;

Status OtherMountError(const std::string& folder, const MountEntry& mount) {
  return Error(StatusCode::kFailedPrecondition,
               "{} is a mount point of {}, which is not a volume of this agent: it is left mounted",
               Quote(folder), Quote(mount.source));
}

}  // namespace

Status Attachments::UnmountAt(const Record& record, const std::string& folder, bool lazily) {
  if (folder.empty()) return base::OkStatus();  // the entry names no pod (ForceOffNode)
  const std::string target = MountPointOf(folder);
  for (int i = 0; i < kMostStacked; ++i) {
    ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
    const MountEntry* mount = platform::FindMount(table, target);
    if (mount == nullptr) return base::OkStatus();
    if (!record.mapping.has_value() || !Shows(*mount, *record.mapping)) {
      return OtherMountError(folder, *mount);
    }
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.unmount.before">());
    RETURN_IF_ERROR(lazily ? parts_.mounter.UnmountLazy(target) : parts_.mounter.Unmount(target));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.unmount.after">());
  }
  return Error(StatusCode::kInternal, "{} is still mounted after {} unmounts", Quote(folder),
               kMostStacked);
}

StatusOr<bool> Attachments::FreeFromDead(const Record& record, const Force& force) {
  if (!records_->FindOtherVolume(record).empty()) return true;  // it may be in use
  // A process that lives is not fenced, because the operator lifts the fences of a clean node. It
  // keeps its lock, so that the volume is safe; but a node that has to take the volume off is not
  // clean as long as it lives.
  ASSIGN_OR_RETURN(const BackendPtr before, OpenBackend(record.backend));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.end_unshown.before">());
  const Status ended =
      before->EndUnshown(record.image, force.on ? std::optional(force.patience) : std::nullopt);
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.end_unshown.after">());
  if (!ended.ok()) {
    // After a loss the fence stays, because a person gives the writes up by breaking it.
    if (force.on || ended.code() == StatusCode::kDataLoss) return ended;
    LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(ended));
    return false;
  }
  // The present settings are used, because those on record may name servers that are gone.
  const auto settings = ReadBackendSettings(record.cluster);
  if (settings.ok() && settings->is_null()) return true;  // the StorageCluster is gone
  const auto freed = [&]() -> Status {
    RETURN_IF_ERROR(settings);
    ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(*settings));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.free.before">());
    RETURN_IF_ERROR(backend->FreeFromDead(record.image));
    return base::FaultPoint<"blockagent.free.after">();
  }();
  if (!freed.ok()) LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(freed));
  return freed.ok();
}

StatusOr<bool> Attachments::TakeDeviceOff(Record& record, const Force& force) {
  ASSIGN_OR_RETURN(const bool was_mapped, UnmapLocked(record, force));
  // Unmap gives everything back, also what a process held that had died before (Backend::Unmap).
  // But ForceUnmap does not ask the storage, and what it killed gave nothing back.
  return was_mapped && !force.on ? true : FreeFromDead(record, force);
}

Status Attachments::TakeOffUnused(Record record, const Force& force) {
  ASSIGN_OR_RETURN(const bool freed, TakeDeviceOff(record, force));
  if (!freed) {
    return Error(StatusCode::kUnavailable,
                 "image {} may still have the lock of a process of this node that died",
                 Quote(record.image));
  }
  return records_->Remove(record.volume);
}

StatusOr<bool> Attachments::UnmapLocked(Record& record, const Force& force) {
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
  if (!record.mapping.has_value()) {
    // The image may have been mapped just before a crash, without a record of the mapping.
    ASSIGN_OR_RETURN(record.mapping, backend->FindMapping(record.image));
    if (!record.mapping.has_value()) return false;
  }
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.unmap.before">());
  RETURN_IF_ERROR_WITH(force.on ? backend->ForceUnmap(*record.mapping, force.patience)
                                : backend->Unmap(*record.mapping),
                       fmt::format("unmap {}", record.mapping->device));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.unmap.after">());
  record.mapping.reset();
  return true;
}

// With force, the device is shut off before its mounts are removed: writes fail from then on, so
// unmounting does not wait for the back end. A failure is only logged, because UnmapLocked tries
// again once the mounts are gone.
void Attachments::ShutOffDevice(const Record& record, const Force& force) {
  const auto shut_off = [&]() -> Status {
    if (!record.mapping.has_value()) return base::OkStatus();
    ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.shut_off.before">());
    RETURN_IF_ERROR(backend->ForceUnmap(*record.mapping, force.patience));
    return base::FaultPoint<"blockagent.shut_off.after">();
  };
  if (const Status done = shut_off(); !done.ok()) {
    LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(done));
  }
}

Status Attachments::TakeOffLocked(Record record, const FenceEntry& entry, const Force& force) {
  Use* use = record.Find(entry);
  if (use == nullptr) return base::OkStatus();
  const bool last = record.uses.size() == 1;
  use->state = State::kDetaching;
  if (last) record.state = State::kDetaching;
  RETURN_IF_ERROR(records_->Put(record));
  if (!last) {
    RETURN_IF_ERROR(UnmountAt(record, entry.mount_dir, force.on));
    RETURN_IF_ERROR(fences_.Release(record.volume, entry));
    std::erase_if(record.uses, [&](const Use& one) { return one.entry.IsSameUse(entry); });
    return records_->Put(record);
  }
  if (force.on) ShutOffDevice(record, force);
  RETURN_IF_ERROR(UnmountAll(record, entry, force.on));
  ASSIGN_OR_RETURN(const bool freed, TakeDeviceOff(record, force));
  // The fence may be released now, because the device is gone.
  RETURN_IF_ERROR(fences_.Release(record.volume, entry));
  record.uses.clear();
  RETURN_IF_ERROR(freed ? records_->Remove(record.volume) : records_->Put(record));
  LOG_INFO("volume {} is detached", Quote(record.volume));
  return base::OkStatus();
}

Status Attachments::UnmountAll(const Record& record, const FenceEntry& entry, bool lazily) {
  RETURN_IF_ERROR(UnmountAt(record, entry.mount_dir, lazily));
  if (record.shared_mount.empty()) return base::OkStatus();
  RETURN_IF_ERROR(UnmountAt(record, record.shared_mount, lazily));
  rmdir(record.shared_mount.c_str());
  return base::OkStatus();
}

Status Attachments::TakeOff(const std::string& volume, const FenceEntry& use, const Force& force,
                            Deadline deadline) {
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume, deadline));
  const auto record = records_->Get(volume);
  if (!record.has_value()) return base::OkStatus();
  return base::Annotate(TakeOffLocked(*record, use, force),
                        fmt::format("take volume {} off", Quote(volume)));
}

StatusOr<std::optional<Record>> Attachments::AdoptVolume(const api::VolumeName& volume,
                                                         const std::string& mount_dir,
                                                         const api::PodUid& pod,
                                                         const MountEntry* mounted) {
  ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(volume.text()));
  const auto entry = std::ranges::find_if(entries, [&](const FenceEntry& one) {
    return one.node == options_.node && one.mount_dir == mount_dir &&
           (pod.empty() || one.pod_uid == pod.text());
  });
  if (mounted == nullptr && entry == entries.end()) return std::nullopt;
  const auto pv = kube::Get<api::PersistentVolume>(parts_.client, "", volume.text());
  if (pv.status().code() == StatusCode::kNotFound) return std::nullopt;
  RETURN_IF_ERROR(pv);
  const std::string cluster_name =
      pv->String({"spec", "flexVolume", "options", api::kClusterOption});
  ASSIGN_OR_RETURN(base::Json settings, ReadBackendSettings(cluster_name));
  if (settings.is_null()) return std::nullopt;
  Record record{.volume = volume.text(),
                .volume_uid = pv->uid(),
                .cluster = cluster_name,
                .image = pv->String({"spec", "flexVolume", "options", api::kImageOption}),
                .backend = std::move(settings),
                .boot_id = boot_id_,
                .state = State::kDetaching};
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
  ASSIGN_OR_RETURN(record.mapping, backend->FindMapping(record.image));
  if (!records_->FindOtherVolume(record).empty()) return std::nullopt;  // it belongs to that volume
  if (mounted != nullptr && (!record.mapping.has_value() || !Shows(*mounted, *record.mapping))) {
    return std::nullopt;
  }
  FenceEntry use = entry != entries.end() ? *entry
                                          : FenceEntry{.node = options_.node,
                                                       .pod_namespace = "",
                                                       .pod = "",
                                                       .pod_uid = pod.text(),
                                                       .mount_dir = mount_dir,
                                                       .read_only = false,
                                                       .cluster_name = cluster_name};
  ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
  const std::string shared = SharedMountOf(volume.text());
  if (platform::FindMount(table, MountPointOf(shared)) != nullptr) record.shared_mount = shared;
  record.uses.push_back({.entry = std::move(use), .state = State::kDetaching});
  return std::optional(std::move(record));
}

StatusOr<std::optional<Record>> Attachments::AdoptMount(const std::string& mount_dir,
                                                        const MountEntry* mounted) {
  const auto folder = ParseVolumeFolder(mount_dir);
  if (folder.has_value()) {
    ASSIGN_OR_RETURN(auto record, AdoptVolume(api::VolumeName(folder->volume), mount_dir,
                                              api::PodUid(folder->pod_uid), mounted));
    if (record.has_value()) return record;
  }
  if (mounted == nullptr) return std::nullopt;
  // Finds the volume by the fence that names this folder.
  ASSIGN_OR_RETURN(const auto fences, parts_.client.List(api::kinds::kVolumeFence, "", {}));
  for (const base::Json& item : fences.items) {
    const api::VolumeFence fence(item);
    for (const FenceEntry& entry : fence.entries()) {
      if (entry.node != options_.node || entry.mount_dir != mount_dir) continue;
      ASSIGN_OR_RETURN(auto record, AdoptVolume(api::VolumeName(fence.name()), mount_dir,
                                                api::PodUid(entry.pod_uid), mounted));
      if (record.has_value()) return record;
    }
  }
  return std::nullopt;
}

Status Attachments::Unmount(const std::string& mount_dir, Deadline deadline) {
  std::string volume = records_->FindVolumeAt(mount_dir);
  ASSIGN_OR_RETURN(auto table, parts_.mounter.List());
  const MountEntry* mounted = platform::FindMount(table, MountPointOf(mount_dir));
  if (volume.empty() && mounted != nullptr) {
    // This may be another mount of a device that is on record.
    for (const Record& record : records_->ListRecords()) {
      if (record.mapping.has_value() && Shows(*mounted, *record.mapping)) volume = record.volume;
    }
  }
  if (const auto folder = ParseVolumeFolder(mount_dir); volume.empty() && folder.has_value()) {
    volume = folder->volume;
  }
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume, deadline));
  // The table is read again, because the call that held the lock may have unmounted the volume:
  // this call may be a retry of it.
  ASSIGN_OR_RETURN(table, parts_.mounter.List());
  mounted = platform::FindMount(table, MountPointOf(mount_dir));
  const std::string context = fmt::format("unmount {}", Quote(mount_dir));
  std::optional<Record> record = records_->Get(volume);
  if (record.has_value()) {
    if (const Use* use = record->FindByFolder(mount_dir); use != nullptr) {
      return base::Annotate(TakeOffLocked(*record, use->entry, {}), context);
    }
    if (mounted != nullptr && record->mapping.has_value() && Shows(*mounted, *record->mapping)) {
      return base::Annotate(UnmountAt(*record, mount_dir, /*lazily=*/false), context);
    }
    return mounted == nullptr ? base::OkStatus() : OtherMountError(mount_dir, *mounted);
  }
  ASSIGN_OR_RETURN(std::optional<Record> adopted, AdoptMount(mount_dir, mounted));
  if (!adopted.has_value()) {
    return mounted == nullptr ? base::OkStatus() : OtherMountError(mount_dir, *mounted);
  }
  LOG_WARNING("volume {} at {} has no record: it is taken off as its fence and its device show it",
              Quote(adopted->volume), Quote(mount_dir));
  const FenceEntry entry = adopted->uses.front().entry;
  return base::Annotate(TakeOffLocked(*std::move(adopted), entry, {}), context);
}

void Attachments::ReportLost(const Record& record, const FenceEntry& use, const std::string& why) {
  const std::string text = fmt::format(
      "the fence of volume {} no longer names {}: it is taken off node {} by force, because {}",
      Quote(record.volume), Describe(use), Quote(options_.node), why);
  LOG_WARNING("{}", text);
  for (const auto& object : {ReferenceToVolume(record), ReferenceToPod(use)}) {
    parts_.events.Record(object, base::EventType::kWarning, "FenceLost", text);
  }
}

BackendFact Attachments::FindOwnLock(const Record& record) {
  if (!record.mapping.has_value()) return BackendFact::kNoLock;
  const auto held = [&]() -> StatusOr<bool> {
    ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
    return backend->HoldsLock(*record.mapping);
  }();
  if (held.ok()) return *held ? BackendFact::kLocked : BackendFact::kNoLock;
  if (held.status().code() == StatusCode::kUnimplemented) return BackendFact::kCannotTell;
  LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(held.status()));
  return BackendFact::kUnknown;
}

StatusOr<LossDecision> Attachments::RestoreFence(const Record& record, const FenceEntry& use) {
  FenceRequest request{.volume = record.volume, .entry = use, .fs_type = record.fs_type};
  const auto volume = kube::Get<api::PersistentVolume>(parts_.client, "", record.volume);
  if (volume.ok()) {
    request.sharing =
        SharingOf(volume->access_modes(), volume->String({"spec", "flexVolume", "fsType"}));
  } else if (volume.status().code() != StatusCode::kNotFound) {
    return base::Annotate(volume.status(), "read the PersistentVolume");
  }
  return fences_.Restore(request, ReferenceToVolume(record), [&] { return FindOwnLock(record); });
}

Status Attachments::SettleLost(const Record& record, const Use& use, bool& restored) {
  restored = false;
  if (use.state != State::kMounted) {
    const Status done = TakeOffLocked(record, use.entry, {});
    // Force is safe for a use that was never mounted, because only leftovers of this node can block
    // its unmount. But only a person gives up what an earlier use wrote.
    if (!done.ok() && use.state == State::kAttaching && done.code() != StatusCode::kDataLoss) {
      return TakeOffLocked(record, use.entry, {.on = true});
    }
    if (done.ok()) return done;
  }
  const auto decision = RestoreFence(record, use.entry);
  RETURN_IF_ERROR(decision);
  if (decision->verdict == LossVerdict::kRestore) {
    restored = true;
    return base::OkStatus();
  }
  if (use.state == State::kMounted) ReportLost(record, use.entry, decision->reason);
  return TakeOffLocked(record, use.entry, {.on = true});
}

void Attachments::ReportQuarantined(const Record& record, const std::string& why) {
  const std::string text =
      fmt::format("volume {} on node {}: {}", Quote(record.volume), Quote(options_.node), why);
  LOG_WARNING("{}", text);
  // The fence of a node without uses is another node's.
  if (!record.uses.empty()) ReportDevice(record, "Quarantined", why);
  parts_.events.Record(ReferenceToVolume(record), base::EventType::kWarning, "VolumeQuarantined",
                       text);
  for (const Use& use : record.uses) {
    parts_.events.Record(ReferenceToPod(use.entry), base::EventType::kWarning, "VolumeQuarantined",
                         text);
  }
}

Status Attachments::ReconcileUses(Record& record, bool& again) {
  ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(record.volume));
  for (const Use& use : std::vector<Use>(record.uses)) {
    Status done;
    bool fenced = ContainsUse(entries, use.entry);
    if (!fenced) done = SettleLost(record, use, fenced);
    if (fenced && use.state == State::kDetaching) {
      done = TakeOffLocked(record, use.entry, {});
    } else if (fenced) {
      const auto gone = IsPodGone(parts_.client, use.entry);
      RETURN_IF_ERROR(gone);
      if (*gone) {
        LOG_INFO("volume {}: {} is gone", Quote(record.volume), Describe(use.entry));
        done = TakeOffLocked(record, use.entry, {});
      } else if (use.state == State::kAttaching) {
        again = true;
      }
    }
    if (!done.ok()) {
      again = true;
      LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(done));
      const std::string why(base::Message(done));
      auto now = records_->Get(record.volume);
      if (now.has_value() && done.code() == StatusCode::kDataLoss) {
        ReportQuarantined(*now, why);
      } else if (now.has_value()) {
        ReportDevice(*now, "Detaching", why);
      }
    }
    auto now = records_->Get(record.volume);
    if (!now.has_value()) {
      record.uses.clear();
      return base::OkStatus();
    }
    record = *std::move(now);
  }
  return base::OkStatus();
}

StatusOr<bool> Attachments::Reconcile(const std::string& volume, Deadline deadline) {
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume, deadline));
  std::optional<Record> record = records_->Get(volume);
  if (!record.has_value()) return false;
  bool again = false;
  if (record->uses.empty()) {
    // A new pod was kept out while the device of the last pod was still there, or the storage could
    // not be asked.
    const Status done = TakeOffUnused(*record, {});
    if (done.code() == StatusCode::kDataLoss) {
      ReportQuarantined(*record, fmt::format("{}; no fence names the node, so add --node {}",
                                             base::Message(done), options_.node));
    }
    RETURN_IF_ERROR(done);
    return false;
  }
  RETURN_IF_ERROR(ReconcileUses(*record, again));
  if (record->state != State::kMounted || record->uses.empty()) return again;
  if (!record->mapping.has_value()) return again;
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record->backend));
  if (const Status sound = backend->Check(*record->mapping); sound.ok()) {
    // A failure is only logged and tried again later, because the volume is usable at its old size.
    if (const Status grown = GrowVolume(*record, *backend); !grown.ok()) {
      LOG_WARNING("grow volume {}: {}", Quote(volume), base::ToString(grown));
    }
  } else if (sound.code() == StatusCode::kDataLoss) {
    ReportQuarantined(*record, std::string(base::Message(sound)));
  } else {
    LOG_WARNING("volume {}: check device {}: {}", Quote(volume), record->mapping->device,
                base::ToString(sound));
  }
  return again;
}

}  // namespace berth::blockagent
