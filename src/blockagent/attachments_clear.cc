// The part of Attachments that takes uses off which a NodeCleanup or a fence names, whether or not
// there is a record of them.

#include <algorithm>

#include "base/log.h"
#include "blockagent/attachments.h"
#include "blockagent/mount_point.h"

namespace berth::blockagent {

using api::CleanupEntry;
using api::FenceEntry;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::MountEntry;

namespace {

// Whether the record has `mount_point` for a pod, or for all pods.
bool UsesFolder(const Record& record, const std::string& mount_point) {
  return (!record.shared_mount.empty() && MountPointOf(record.shared_mount) == mount_point) ||
         std::ranges::any_of(record.uses, [&](const Use& use) {
           return MountPointOf(use.entry.mount_dir) == mount_point;
         });
}

}  // namespace

StatusOr<bool> Attachments::IsFenced(const std::string& volume, const FenceEntry& use) {
  return fences_.HasEntry(volume, use);
}

Status Attachments::TakeEntryOff(const CleanupEntry& entry, const Force& force, Deadline deadline) {
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(entry.volume, deadline));
  return base::Annotate(TakeEntryOffLocked(entry, force),
                        fmt::format("take volume {} off", Quote(entry.volume)));
}

Status Attachments::TakeEntryOffLocked(const CleanupEntry& entry, const Force& force) {
  const FenceEntry& use = entry.attachment;
  std::optional<Record> record = records_->Get(entry.volume);
  if (Use* known = record.has_value() ? record->Find(use) : nullptr; known != nullptr) {
    if (known->state == State::kMounted) {
      ASSIGN_OR_RETURN(const bool held, fences_.HasEntry(entry.volume, use));
      if (!held) ReportLost(*record, use, entry.reason);
    }
    return TakeOffLocked(*std::move(record), use, force);
  }
  ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
  const MountEntry* mounted =
      use.mount_dir.empty() ? nullptr : platform::FindMount(table, MountPointOf(use.mount_dir));
  if (record.has_value() && record->uses.empty()) {
    RETURN_IF_ERROR(TakeOffUnused(*std::move(record), force));
    return fences_.Release(entry.volume, use);
  }
  if (record.has_value()) {
    // Other pods use the volume here. Only this pod's mount is unmounted; an entry that names the
    // folder of another pod proves nothing about that pod.
    if (mounted != nullptr && !UsesFolder(*record, mounted->mount_point)) {
      RETURN_IF_ERROR(UnmountAt(*record, use.mount_dir, force.on));
    }
    return fences_.Release(entry.volume, use);
  }
  ASSIGN_OR_RETURN(std::optional<Record> adopted, AdoptMount(use.mount_dir, mounted));
  // The folder may be that of another volume, which this entry does not concern.
  if (adopted.has_value() && adopted->volume != entry.volume) adopted.reset();
  if (!adopted.has_value()) {
    ASSIGN_OR_RETURN(adopted, AdoptImage(entry, force));
  }
  if (adopted.has_value()) {
    const FenceEntry own = adopted->uses.front().entry;
    RETURN_IF_ERROR(TakeOffLocked(*std::move(adopted), own, force));
  } else if (mounted != nullptr) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is a mount point of {}, and nothing shows that this is the volume: it is left "
                 "mounted; check it and unmount it",
                 Quote(use.mount_dir), Quote(mounted->source));
  }
  // This node has nothing of the volume.
  return fences_.Release(entry.volume, use);
}

StatusOr<base::Json> Attachments::ReadBackendSettings(const std::string& cluster_name) {
  const auto cluster = kube::Get<api::StorageCluster>(parts_.client, "", cluster_name);
  if (cluster.status().code() == StatusCode::kNotFound) return base::Json();
  RETURN_IF_ERROR(cluster);
  const base::Json* settings = cluster->backend();
  return settings == nullptr ? base::Json() : *settings;
}

// Uses the entry's image name, because the PersistentVolume may be gone while the image is still
// mapped.
StatusOr<std::optional<Record>> Attachments::AdoptImage(const CleanupEntry& entry,
                                                        const Force& force) {
  if (entry.image.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(base::Json settings, ReadBackendSettings(entry.cluster_name));
  if (settings.is_null()) return std::nullopt;
  Record record{.volume = entry.volume,
                .cluster = entry.cluster_name,
                .image = entry.image,
                .backend = std::move(settings),
                .boot_id = boot_id_,
                .state = State::kDetaching};
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
  ASSIGN_OR_RETURN(record.mapping, backend->FindMapping(record.image));
  if (!record.mapping.has_value()) {
    // This node may have lost its records, for example because it was set up anew.
    ASSIGN_OR_RETURN(const bool freed, FreeFromDead(record, force));
    if (!freed) RETURN_IF_ERROR(records_->Put(record));
    return std::nullopt;
  }
  if (!records_->FindOtherVolume(record).empty()) return std::nullopt;
  record.uses.push_back({.entry = entry.attachment, .state = State::kDetaching});
  return std::optional(std::move(record));
}

StatusOr<std::set<std::string>> Attachments::FindVolumesOf(const std::string& cluster) {
  std::set<std::string> volumes;
  for (const Record& record : records_->ListRecords()) {
    if (record.cluster == cluster) volumes.insert(record.volume);
  }
  ASSIGN_OR_RETURN(const auto fences, parts_.client.List(api::kinds::kVolumeFence, "", {}));
  for (const base::Json& item : fences.items) {
    const api::VolumeFence fence(item);
    for (const FenceEntry& entry : fence.entries()) {
      if (entry.node == options_.node && entry.cluster_name == cluster) {
        volumes.insert(fence.name());
      }
    }
  }
  return volumes;
}

Status Attachments::TakeAllOff(const std::string& volume, const Force& force, Deadline deadline) {
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(volume, deadline));
  return base::Annotate(TakeAllOffLocked(volume, force),
                        fmt::format("take volume {} off", Quote(volume)));
}

Status Attachments::TakeAllOffLocked(const std::string& volume, const Force& force) {
  // Each round removes one use.
  while (auto record = records_->Get(volume)) {
    if (record->uses.empty()) {
      // A StorageCluster that is being deleted does not wait for a storage that cannot be asked.
      RETURN_IF_ERROR(TakeDeviceOff(*record, force));
      RETURN_IF_ERROR(records_->Remove(volume));
      break;
    }
    const FenceEntry use = record->uses.front().entry;
    RETURN_IF_ERROR(TakeOffLocked(*std::move(record), use, force));
  }
  // The fence may name uses of this node that have no record.
  ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(volume));
  for (const FenceEntry& entry : entries) {
    if (entry.node != options_.node) continue;
    RETURN_IF_ERROR(TakeEntryOffLocked(
        {.volume = volume, .attachment = entry, .cluster_name = entry.cluster_name}, force));
  }
  return base::OkStatus();
}

}  // namespace berth::blockagent
