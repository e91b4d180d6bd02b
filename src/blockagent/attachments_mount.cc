// The part of Attachments that attaches volumes: the steps of Mount.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "blockagent/attachments.h"
#include "blockagent/device_content.h"
#include "blockagent/mount_point.h"
#include "blockagent/node_cleanups.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::MountEntry;

constexpr std::chrono::seconds kLookTime{10};

// Whether the device is neither mounted nor open exclusively, and nothing is mounted at the target.
// Then the caller need not read the mount table, which may be long. False also if this check cannot
// tell.
StatusOr<bool> AreFree(const std::string& device, const std::string& target) {
  return platform::AskChild<bool>(
      fmt::format("check device {}", Quote(device)), kLookTime, [device, target](bool& free) {
        struct statx found = {};
        constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
        if (statx(AT_FDCWD, target.c_str(), kFlags, STATX_TYPE, &found) != 0) return 0;
        // The exclusive open fails if the device is mounted in any mount namespace.
        const int fd = open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
        // Older kernels do not report whether a path is the root of a mount.
        free = fd >= 0 && (found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
               (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0;
        return 0;
      });
}

// Fails if another PersistentVolume names the image, too, because a node may use the image by right
// as that volume. Also one of another StorageCluster counts, if that may be the same storage.
Status CheckNamedOnce(kube::Client& client, const std::string& volume, const std::string& cluster,
                      const base::Json& backend, const std::string& image) {
  ASSIGN_OR_RETURN(const auto volumes, client.List(api::kinds::kPersistentVolume, "", {}));
  for (const base::Json& item : volumes.items) {
    const api::PersistentVolume other(item);
    if (other.name() == volume ||
        other.String({"spec", "flexVolume", "options", api::kImageOption}) != image) {
      continue;
    }
    const std::string other_cluster =
        other.String({"spec", "flexVolume", "options", api::kClusterOption});
    if (other_cluster != cluster) {
      const auto found = kube::Get<api::StorageCluster>(client, "", other_cluster);
      // A StorageCluster that is gone may have been the same storage, so its volume counts as well.
      if (found.status().code() != StatusCode::kNotFound) RETURN_IF_ERROR(found);
      if (found.ok() && found->backend() != nullptr &&
          !block::MayBeSameStore(*found->backend(), backend)) {
        continue;
      }
    }
    return Error(StatusCode::kFailedPrecondition,
                 "PersistentVolume {} names image {}, too, so that no node is fenced from it: "
                 "delete one of the two PersistentVolumes",
                 Quote(other.name()), Quote(image));
  }
  return base::OkStatus();
}

bool NamesNode(const std::vector<FenceEntry>& entries, const std::string& node) {
  return std::ranges::any_of(entries, [&](const FenceEntry& one) { return one.node == node; });
}

Status LostEntryError(const std::string& volume) {
  return Error(StatusCode::kAborted, "the fence of volume {} lost the entry of this node",
               Quote(volume));
}

}  // namespace

Status Attachments::Mount(const MountCall& call, Deadline deadline) {
  ASSIGN_OR_RETURN(const Subject subject, FindSubject(call));
  ASSIGN_OR_RETURN(const auto hold, locks_.WaitExclusive(call.volume, deadline));
  // Two volumes may name one image. The lock makes sure that one of them is on record before the
  // call for the other one reads the records.
  ASSIGN_OR_RETURN(const auto image_hold, image_locks_.WaitExclusive(subject.image, deadline));
  return base::Annotate(MountLocked(call, subject),
                        fmt::format("mount volume {}", Quote(call.volume)));
}

Status Attachments::MountLocked(const MountCall& call, const Subject& subject) {
  const FenceEntry entry{.node = options_.node,
                         .pod_namespace = call.pod_namespace,
                         .pod = call.pod,
                         .pod_uid = call.pod_uid,
                         .mount_dir = call.mount_dir,
                         .read_only = subject.read_only,
                         .cluster_name = subject.cluster};
  RETURN_IF_ERROR(TakeOffLeftovers(call.volume, entry));
  const std::optional<Record> before = records_->Get(call.volume);
  Record record = before.value_or(Record{.volume = call.volume, .boot_id = boot_id_});
  if (before.has_value() && (record.image != subject.image || record.cluster != subject.cluster)) {
    return Error(StatusCode::kFailedPrecondition,
                 "it is attached as image {} of StorageCluster {}, but the PersistentVolume now "
                 "names image {} of {}",
                 Quote(record.image), Quote(record.cluster), Quote(subject.image),
                 Quote(subject.cluster));
  }
  record.volume_uid = subject.volume.uid();
  record.cluster = subject.cluster;
  record.image = subject.image;
  if (!record.formatting_uuid.empty()) {
    // If the fence has lost this node's entries since, another node may use the file system with
    // that UUID by now.
    ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(call.volume));
    const auto is_on_record = [&](const FenceEntry& one) { return record.Find(one) != nullptr; };
    if (std::ranges::none_of(entries, is_on_record)) record.formatting_uuid.clear();
  }
  if (!record.mapping.has_value()) record.backend = subject.backend;
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
  Use* use = record.Find(entry);
  if (use != nullptr && use->state == State::kMounted) {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(record, *use));
    ASSIGN_OR_RETURN(const bool held, fences_.HasEntry(call.volume, entry));
    if (mounted && held) return base::OkStatus();
    if (mounted) {
      // The pod may run already, so the use stays recorded as mounted while its entry is written.
      ASSIGN_OR_RETURN(const LossDecision decision, RestoreFence(record, entry));
      if (decision.verdict == LossVerdict::kRestore) return base::OkStatus();
    }
  }
  // Both volumes would get the same device, and its file system would be mounted twice.
  if (const std::string other = records_->FindOtherVolume(record); !other.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "image {} of StorageCluster {} is in use on this node as volume {}: delete one of "
                 "the two PersistentVolumes",
                 Quote(record.image), Quote(record.cluster), Quote(other));
  }
  if (use == nullptr) {
    record.uses.push_back({.entry = entry});
    use = &record.uses.back();
  }
  if (use->state == State::kAttaching && before.has_value() && !record.mapping.has_value()) {
    // Somebody may have taken the volume from this pod since its last try, for example to give up
    // what the I/O proxy could not flush. That comes first, because as soon as the fence names the
    // pod again, nothing would be taken off any more.
    ASSIGN_OR_RETURN(const bool owed,
                     HasCleanup(parts_.client, api::NodeName(options_.node),
                                api::VolumeName(call.volume), api::PodUid(call.pod_uid)));
    if (owed) {
      return Error(StatusCode::kAborted, "it is about to be taken off node {} first",
                   Quote(options_.node));
    }
  }
  use->state = State::kAttaching;
  if (record.state == State::kDetaching) {
    record.state = record.mapping.has_value() ? State::kMapped : State::kAttaching;
  }
  // Before the fence is taken, because a back end that must not be used would keep it.
  const Status exchanged = backend->ExchangeLocks(subject.cluster_uid);
  // A pod must be able to remove files from a share that is full.
  if (exchanged.code() == StatusCode::kResourceExhausted) {
    LOG_WARNING("StorageCluster {}: {}", Quote(subject.cluster), base::ToString(exchanged));
  } else {
    RETURN_IF_ERROR_WITH(exchanged, fmt::format("StorageCluster {}", Quote(subject.cluster)));
  }
  bool recorded = false;
  const auto fence = AcquireFence(subject, *use, !before.has_value(), *backend, [&]() -> Status {
    if (!recorded) RETURN_IF_ERROR(records_->Put(record));
    recorded = true;
    return base::OkStatus();
  });
  if (fence.status().code() == StatusCode::kFailedPrecondition && recorded) {
    // Another request was faster, so the fence certainly does not name this use. The earlier record
    // is restored.
    const Status undone =
        before.has_value() ? records_->Put(*before) : records_->Remove(call.volume);
    if (!undone.ok()) LOG_WARNING("{}", base::ToString(undone));
  }
  RETURN_IF_ERROR(fence);
  // The cluster is read again, because the cleanup of a cluster that is being deleted may have read
  // the records before this one was written.
  if (const auto cluster = ReadUsableCluster(subject.cluster); !cluster.ok()) {
    if (cluster.status().code() != StatusCode::kFailedPrecondition) return cluster.status();
    const Status undone = TakeOffLocked(record, entry, {});
    if (!undone.ok()) LOG_WARNING("{}", base::ToString(undone));
    return cluster.status();
  }
  RETURN_IF_ERROR(MapAndMount(subject, record, entry, *backend));
  ReportDevice(record, "Attached", "", &*fence);
  LOG_INFO("volume {} is mounted at {} from {}", Quote(call.volume), Quote(call.mount_dir),
           record.mapping->device);
  return base::OkStatus();
}

Status Attachments::TakeOffLeftovers(const std::string& volume, const FenceEntry& coming) {
  const std::optional<Record> record = records_->Get(volume);
  const auto is_another = [&](const Use& use) { return !use.entry.IsSameUse(coming); };
  if (!record.has_value() || std::ranges::none_of(record->uses, is_another)) {
    return base::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(volume));
  for (const Use& use : record->uses) {
    if (!is_another(use)) continue;
    // The record is read again each time, because each use that is taken off changes it.
    if (!ContainsUse(entries, use.entry)) {
      bool restored = false;
      RETURN_IF_ERROR(SettleLost(*records_->Get(volume), use, restored));
      if (!restored) continue;
    }
    const auto gone = IsPodGone(parts_.client, use.entry);
    // This node must confirm that a pod that is gone no longer has the volume.
    if (gone.ok() && *gone) {
      RETURN_IF_ERROR(TakeOffLocked(*records_->Get(volume), use.entry, {}));
    }
  }
  return base::OkStatus();
}

BackendFact Attachments::FindLock(block::Backend& backend, const Subject& subject,
                                  const api::NodeName& node, std::string& note) {
  const std::string& image = subject.image;
  const auto locked = backend.HasLock(image);
  if (locked.ok() && *locked) {
    note = backend.DescribeLapse();
    return BackendFact::kLocked;
  }
  // A lock that is not there proves something only if a lock would be seen.
  const Status unproven =
      locked.ok() ? backend.ProveLocks(subject.cluster_uid, node) : locked.status();
  if (unproven.ok()) return BackendFact::kNoLock;
  LOG_WARNING("image {}: {}", Quote(image), base::ToString(unproven));
  note = base::Message(unproven);
  return unproven.code() == StatusCode::kUnimplemented ||
                 unproven.code() == StatusCode::kFailedPrecondition
             ? BackendFact::kCannotTell
             : BackendFact::kUnknown;
}

StatusOr<api::VolumeFence> Attachments::AcquireFence(const Subject& subject, const Use& use,
                                                     bool likely_first, block::Backend& backend,
                                                     const std::function<Status()>& entering) {
  const auto controller = subject.pod.controller();
  const std::string& volume = subject.volume.name();
  const auto find_facts = [&](const FenceEntry& old) {
    std::string note;
    ConsumerFacts facts = consumers_.Find(
        api::VolumeName(volume), old, controller.has_value() ? controller->uid : "",
        {.fences_nodes = backend.FencesNodes(), .find_lock = [&](const api::NodeName& node) {
           return FindLock(backend, subject, node, note);
         }});
    if (!note.empty()) facts.note = std::move(note);
    if (old.node != options_.node || facts.pod != PodFact::kGone) return facts;
    // The old node is this node, so this agent can confirm the detachment itself.
    auto record = records_->Get(volume);
    const auto table = parts_.mounter.List();
    facts.detach_confirmed = table.ok() && (!record.has_value() || record->Find(old) == nullptr) &&
                             platform::FindMount(*table, MountPointOf(old.mount_dir)) == nullptr;
    return facts;
  };
  const auto find_unfenced = [&]() -> StatusOr<std::vector<FenceEntry>> {
    if (backend.KeepsLocks()) return std::vector<FenceEntry>();
    return FindStartedPods(parts_.client, subject.volume, options_.node);
  };
  return fences_.Acquire(
      {.volume = volume,
       .entry = use.entry,
       .sharing = subject.sharing,
       .fs_type = subject.fs_type,
       .likely_first = likely_first},
      {.volume = subject.volume.reference(),
       .pod = subject.pod.reference(),
       .cluster_name = subject.cluster,
       .image = subject.image},
      {.find_facts = find_facts, .find_unfenced = find_unfenced, .entering = entering});
}

Status Attachments::FenceOwingNodes(const Subject& subject, block::Backend& backend) {
  // Where all nodes may write, no entry of a fence excludes another node. The cluster's file system
  // fences there.
  if (!backend.FencesNodes() || subject.sharing == Sharing::kAllNodes) return base::OkStatus();
  const std::string& volume = subject.volume.name();
  // A reader of a volume that has many readers writes nothing. Of other volumes the device of a
  // reader is mapped for writing, too.
  const bool readers = subject.sharing != Sharing::kReaders;
  ASSIGN_OR_RETURN(const std::vector<api::NodeName> owing,
                   FindOwingNodes(parts_.client, api::VolumeName(volume), readers));
  if (owing.empty()) return base::OkStatus();
  // The clients are listed before the VolumeFence is read. So each of them began before the
  // VolumeFence named this node alone. A client that a node begins later, because this process was
  // frozen and the node got the volume back by right, is not in the list.
  const auto context = [&](const api::NodeName& node) {
    return fmt::format("fence node {} from image {}", Quote(node.text()), Quote(subject.image));
  };
  std::vector<std::pair<api::NodeName, std::vector<std::string>>> targets;
  for (const api::NodeName& node : owing) {
    auto clients = backend.FindClients(subject.image, node);
    RETURN_IF_ERROR_WITH(clients, context(node));
    targets.emplace_back(node, *std::move(clients));
  }
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.storage_fence.listed">());
  ASSIGN_OR_RETURN(const std::vector<FenceEntry> entries, fences_.ReadEntries(volume));
  if (!NamesNode(entries, options_.node)) return LostEntryError(volume);
  RETURN_IF_ERROR(
      CheckNamedOnce(parts_.client, volume, subject.cluster, subject.backend, subject.image));
  for (const auto& [node, clients] : targets) {
    // A node that has an entry again uses the volume by right. Its entry in the NodeCleanup is of
    // an earlier use, and its agent removes it.
    if (NamesNode(entries, node.text())) continue;
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.storage_fence.before">());
    RETURN_IF_ERROR_WITH(backend.Fence(subject.image, node, clients), context(node));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.storage_fence.after">());
    LOG_INFO("volume {}: {}: done", Quote(volume), context(node));
  }
  return base::OkStatus();
}

Status Attachments::CheckStillNamed(const Subject& subject, Record& record, const FenceEntry& entry,
                                    block::Backend& backend) {
  if (!backend.FencesNodes() || subject.sharing == Sharing::kAllNodes) return base::OkStatus();
  ASSIGN_OR_RETURN(const bool held, fences_.HasEntry(record.volume, entry));
  if (held) return base::OkStatus();
  // What was mapped without the right to it must not be found mapped by the next request.
  if (record.uses.size() == 1) {
    RETURN_IF_ERROR(UnmapLocked(record, {}));
    RETURN_IF_ERROR(records_->Put(record));
  }
  return LostEntryError(record.volume);
}

StatusOr<bool> Attachments::IsMounted(const Record& record, const Use& use) {
  if (!record.mapping.has_value()) return false;
  ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
  const MountEntry* mount = platform::FindMount(table, MountPointOf(use.entry.mount_dir));
  return mount != nullptr && Shows(*mount, *record.mapping);
}

Status Attachments::MapAndMount(const Subject& subject, Record& record, const FenceEntry& entry,
                                block::Backend& backend) {
  // A device that was mapped for an earlier reader cannot serve a writer.
  if (record.mapping.has_value() && record.mapping->read_only != subject.map_read_only &&
      record.uses.size() == 1) {
    RETURN_IF_ERROR(UnmapLocked(record, {}));
    RETURN_IF_ERROR(records_->Put(record));
  }
  const bool attaches = !record.mapping.has_value();
  if (attaches) RETURN_IF_ERROR(FenceOwingNodes(subject, backend));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.map.before">());
  auto mapped =
      backend.Map(record.image, {.read_only = subject.map_read_only,
                                 .shared_writers = subject.sharing == Sharing::kAllNodes});
  RETURN_IF_ERROR_WITH(mapped, fmt::format("map image {} of StorageCluster {}", Quote(record.image),
                                           Quote(record.cluster)));
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.map.after">());
  // A device that was mapped before may be smaller than its image by now.
  if (record.mapping.has_value()) mapped = backend.Refresh(*mapped);
  RETURN_IF_ERROR(mapped);
  record.mapping = *std::move(mapped);
  if (record.state == State::kAttaching) record.state = State::kMapped;
  if (subject.sharing != Sharing::kOnePod) record.shared_mount = SharedMountOf(record.volume);
  RETURN_IF_ERROR(records_->Put(record));
  if (attaches) {
    LOG_INFO("volume {} is attached as {}", Quote(record.volume), record.mapping->device);
  }
  RETURN_IF_ERROR(CheckStillNamed(subject, record, entry, backend));
  RETURN_IF_ERROR(MountUse(subject, record, entry, backend));
  record.Find(entry)->state = State::kMounted;
  record.state = State::kMounted;
  record.formatting_uuid.clear();
  return records_->Put(record);
}

Status Attachments::MountUse(const Subject& subject, Record& record, const FenceEntry& entry,
                             block::Backend& backend) {
  if (record.shared_mount.empty()) {
    return MountDevice(subject, record, entry.mount_dir, subject.map_read_only, backend);
  }
  RETURN_IF_ERROR(platform::MakeFolders(record.shared_mount, 0750));
  RETURN_IF_ERROR(
      MountDevice(subject, record, record.shared_mount, record.mapping->read_only, backend));
  ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
  const std::string target = MountPointOf(entry.mount_dir);
  if (const MountEntry* there = platform::FindMount(table, target); there != nullptr) {
    if (Shows(*there, *record.mapping)) return base::OkStatus();
    return Error(StatusCode::kFailedPrecondition, "{} is a mount point of {} already",
                 Quote(target), Quote(there->source));
  }
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.bind.before">());
  std::vector<std::string> options = {"bind"};
  if (subject.read_only) options.emplace_back("ro");
  RETURN_IF_ERROR(parts_.mounter.Mount(
      {.source = record.shared_mount, .target = target, .options = std::move(options)}));
  return base::FaultPoint<"blockagent.bind.after">();
}

Status Attachments::MountDevice(const Subject& subject, Record& record, const std::string& folder,
                                bool read_only, block::Backend& backend) {
  const std::string target = MountPointOf(folder);
  const block::Mapping& mapping = *record.mapping;
  bool elsewhere = false;
  ASSIGN_OR_RETURN(const bool free, AreFree(mapping.device, target));
  if (!free) {
    ASSIGN_OR_RETURN(const auto table, parts_.mounter.List());
    if (const MountEntry* there = platform::FindMount(table, target); there != nullptr) {
      if (Shows(*there, mapping)) return base::OkStatus();
      return Error(StatusCode::kFailedPrecondition, "{} is a mount point of {} already",
                   Quote(target), Quote(there->source));
    }
    elsewhere =
        std::ranges::any_of(table, [&](const MountEntry& mount) { return Shows(mount, mapping); });
  }
  if (!elsewhere) RETURN_IF_ERROR(PrepareDevice(subject, record, backend));
  // A volume may be a copy of another one, or restored from a snapshot of it, and both are used.
  const auto* fs = platform::FindFileSystem(record.fs_type);
  std::vector<std::string> options = fs == nullptr ? std::vector<std::string>() : fs->CopyOptions();
  if (read_only) {
    options.emplace_back("ro");
    if (fs != nullptr) std::ranges::copy(fs->ReadOnlyDeviceOptions(), std::back_inserter(options));
  }
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.mount.before">());
  RETURN_IF_ERROR(parts_.mounter.Mount({.source = mapping.device,
                                        .target = target,
                                        .fs_type = record.fs_type,
                                        .options = std::move(options),
                                        .one_device = true}));
  return base::FaultPoint<"blockagent.mount.after">();
}

Status Attachments::PrepareDevice(const Subject& subject, Record& record, block::Backend& backend) {
  const block::Mapping& mapping = *record.mapping;
  // The back end's note comes first, because another node may have written it. This node's record
  // counts only if the back end keeps no notes.
  const auto read = backend.ReadFormatting(record.image);
  const bool keeps_notes = read.status().code() != StatusCode::kUnimplemented;
  if (keeps_notes) RETURN_IF_ERROR(read);
  std::string noted = keeps_notes ? *read : "";
  const auto note = [&](const std::string& uuid) -> Status {
    if (!keeps_notes) return base::OkStatus();
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.note.before">());
    RETURN_IF_ERROR(backend.NoteFormatting(record.image, uuid));
    noted = uuid;
    return base::FaultPoint<"blockagent.note.after">();
  };
  ASSIGN_OR_RETURN(
      record.fs_type,
      PrepareContent(parts_.exec, {.device = mapping.device,
                                   .device_bytes = mapping.size_bytes,
                                   .fs_type = subject.fs_type,
                                   .read_only = mapping.read_only,
                                   .formatting_uuid = keeps_notes ? noted : record.formatting_uuid,
                                   .about_to_format = [&](const std::string& uuid) -> Status {
                                     record.formatting_uuid = uuid;
                                     RETURN_IF_ERROR(records_->Put(record));
                                     return note(uuid);
                                   }}));
  if (mapping.read_only) return base::OkStatus();
  // The note is removed, because the file system is about to be used.
  return noted.empty() ? base::OkStatus() : note("");
}

}  // namespace berth::blockagent
