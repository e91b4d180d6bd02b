#include "blockagent/attachments.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::blockagent {
namespace {

using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusOr;

}  // namespace

base::ObjectReference ReferenceToVolume(const Record& record) {
  return {.api_version = "v1",
          .kind = "PersistentVolume",
          .ns = "",
          .name = record.volume,
          .uid = record.volume_uid};
}

bool Shows(const platform::MountEntry& mount, const block::Mapping& mapping) {
  // In the mount table btrfs has its own device number, so the source is compared.
  if (mount.fs_type == "btrfs") return mount.source == mapping.device;
  return makedev(mount.major, mount.minor) == mapping.device_number;
}

StatusOr<std::unique_ptr<Attachments>> Attachments::Open(AttachmentOptions options,
                                                         AttachmentParts parts) {
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  ASSIGN_OR_RETURN(auto records, Records::Open(options.data_folder + "/volumes"));
  for (Record record : records->ListRecords()) {
    if (platform::IsThisBoot(record.boot_id, boot_id)) continue;
    // The reboot removed devices and mounts. The fence still names this node until Reconcile finds
    // that the pods are gone.
    LOG_INFO("volume {} was attached before the machine rebooted", Quote(record.volume));
    record.boot_id = boot_id;
    record.mapping.reset();
    record.state = State::kAttaching;
    for (Use& use : record.uses) use.state = State::kAttaching;
    RETURN_IF_ERROR(records->Put(record));
  }
  return std::unique_ptr<Attachments>(new Attachments(std::move(options), std::move(parts),
                                                      std::move(records), std::move(boot_id)));
}

Attachments::Attachments(AttachmentOptions options, AttachmentParts parts,
                         std::unique_ptr<Records> records, std::string boot_id)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      records_(std::move(records)),
      boot_id_(std::move(boot_id)),
      consumers_(parts_.client, options_.consumers),
      fences_({parts_.client, parts_.events, parts_.clock, options_.node}) {}

StatusOr<Attachments::BackendPtr> Attachments::OpenBackend(const base::Json& settings) {
  const std::string key = base::json::Dump(settings);
  {
    MutexLock lock(mutex_);
    const auto it = backends_.find(key);
    if (it != backends_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(auto made, parts_.make_backend(settings));
  MutexLock lock(mutex_);
  // Another thread may have made the back end meanwhile. All threads must use the same object,
  // because its locks make calls for one image exclude each other.
  return backends_.try_emplace(key, std::move(made)).first->second;
}

Status Attachments::ExchangeLocks(const api::StorageCluster& cluster) {
  if (cluster.backend() == nullptr) return base::OkStatus();
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(*cluster.backend()));
  // A storage that fences keeps the locks itself. A node that uses no volume of it need not reach
  // it, and may not read its Secret.
  if (backend->FencesNodes()) return base::OkStatus();
  return backend->ExchangeLocks(cluster.uid());
}

Status Attachments::LeaveLocks(const base::Json& settings, const std::string& uid) {
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(settings));
  backend->LeaveLocks(uid);
  return base::OkStatus();
}

std::string Attachments::SharedMountOf(const std::string& volume) const {
  return fmt::format("{}/plugins/{}/mounts/{}", options_.kubelet_folder, api::kBlockDriver, volume);
}

std::vector<std::string> Attachments::ListVolumes() const {
  std::vector<std::string> volumes;
  for (const Record& record : records_->ListRecords()) volumes.push_back(record.volume);
  return volumes;
}

void Attachments::ReportDevice(const Record& record, std::string_view state,
                               const std::string& message, const api::VolumeFence* known) {
  const Status written = fences_.WriteDeviceStatus(
      record.volume,
      {.device_path = record.mapping.has_value() ? record.mapping->device : "",
       .state = std::string(state),
       .message = message},
      known);
  if (!written.ok()) LOG_WARNING("volume {}: {}", Quote(record.volume), base::ToString(written));
}

}  // namespace berth::blockagent
