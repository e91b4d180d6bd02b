#include "crust/kata/volume_table.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "crust/requests.h"
#include "platform/files/record_files.h"

namespace berth::crust::kata {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::TargetPath;

constexpr int kVersion = 1;
constexpr size_t kMaxVolumes = 16384;
constexpr size_t kMaxPodVolumes = 256;

}  // namespace

std::string KataPodKind::Encode(const KataPod& record) {
  std::vector<VolumeRecord> volumes;
  Json rest = Json::array();
  for (const KataVolume& each : record.volumes) {
    volumes.push_back(each.volume);
    Json member = {{"sandboxId", each.sandbox.text()}, {"deviceBytes", each.device_bytes}};
    if (each.grows_from.has_value()) member["growsFrom"] = *each.grows_from;
    rest.push_back(std::move(member));
  }
  const Json value = {{"version", kVersion},
                      {"podUid", record.pod.text()},
                      {"bootId", record.boot_id},
                      {"volumes", EncodeVolumes(volumes)},
                      {"kata", std::move(rest)}};
  return json::Dump(value) + "\n";
}

StatusOr<KataPod> KataPodKind::Decode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json value,
                   platform::ParseRecord(text, kVersion, {.max_bytes = kMaxRecordBytes}));
  KataPod record{.pod = api::PodUid(json::String(value, {"podUid"})),
                 .boot_id = json::String(value, {"bootId"})};
  ASSIGN_OR_RETURN(std::vector<VolumeRecord> volumes,
                   DecodeVolumes(json::Array(value, {"volumes"})));
  const Json& rest = json::Array(value, {"kata"});
  if (!CheckPodUid(record.pod).ok() || record.boot_id.empty() || rest.size() != volumes.size()) {
    return Error(StatusCode::kDataLoss, "a member of the record is missing or unknown");
  }
  for (size_t i = 0; i < volumes.size(); ++i) {
    KataVolume each{.pod = record.pod,
                    .sandbox = rpc::SandboxId(json::String(rest[i], {"sandboxId"})),
                    .volume = std::move(volumes[i]),
                    .device_bytes = json::Int(rest[i], {"deviceBytes"})};
    if (json::Find(rest[i], {"growsFrom"}) != nullptr) {
      each.grows_from = json::Int(rest[i], {"growsFrom"});
    }
    record.volumes.push_back(std::move(each));
  }
  return record;
}

StatusOr<std::unique_ptr<VolumeTable>> VolumeTable::Open(const std::string& data) {
  ASSIGN_OR_RETURN(auto records, BootRecords<KataPodKind>::Open(data + "/pods"));
  ASSIGN_OR_RETURN(auto loaded, records.LoadRecords());
  std::unique_ptr<VolumeTable> table(new VolumeTable(std::move(records)));
  base::MutexLock lock(table->mutex_);
  for (const std::string& pod : loaded.unreadable) table->unreadable_.emplace(pod);
  for (KataPod& record : loaded.records) {
    LOG_INFO("pod {} has {} volumes", record.pod, record.volumes.size());
    for (KataVolume& each : record.volumes) {
      const TargetPath target = each.volume.target;
      table->volumes_.emplace(target, std::move(each));
    }
  }
  return table;
}

void VolumeTable::SortOutUnreadable(const std::function<bool(const api::PodUid&)>& is_of_boot) {
  base::MutexLock lock(mutex_);
  std::erase_if(unreadable_, [&](const api::PodUid& pod) { return !is_of_boot(pod); });
}

StatusOr<base::KeyLocks::Hold> VolumeTable::LockPod(const api::PodUid& pod,
                                                    std::chrono::milliseconds patience) {
  auto hold = calls_.WaitExclusive(pod.text(), std::chrono::steady_clock::now() + patience);
  if (!hold.ok()) {
    return Error(StatusCode::kAborted, "another call for pod {} is under way", pod);
  }
  base::MutexLock lock(mutex_);
  if (!unreadable_.contains(pod)) return hold;
  return Error(StatusCode::kInternal,
               "the record of the volumes of pod {} in {} cannot be read: they stay as they are "
               "until this machine is rebooted",
               pod, Quote(records_.folder()));
}

Status VolumeTable::ReserveVolume(const KataVolume& volume) {
  base::MutexLock lock(mutex_);
  size_t of_pod = 0;
  for (const auto& [target, other] : volumes_) {
    of_pod += other.pod == volume.pod ? 1 : 0;
    if (target == volume.volume.target) continue;
    if (other.volume.plan.device.number != volume.volume.plan.device.number) continue;
    // Two kernels that have one file system mounted destroy it, unless neither of them writes.
    if (other.volume.plan.read_only() && volume.volume.plan.read_only()) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "device {} is published at {} already, and only one virtual machine may have it "
                 "unless all of them only read",
                 Quote(volume.volume.host_volume_id), target);
  }
  if (of_pod >= kMaxPodVolumes || volumes_.size() >= kMaxVolumes) {
    return Error(StatusCode::kResourceExhausted,
                 "the pod has {} volumes already, and all pods together have {}", of_pod,
                 volumes_.size());
  }
  if (volumes_.emplace(volume.volume.target, volume).second) {
    unwritten_.insert(volume.volume.target);
  }
  return OkStatus();
}

Status VolumeTable::WriteRecord(const api::PodUid& pod) const {
  KataPod record{.pod = pod};
  {
    base::MutexLock lock(mutex_);
    for (const auto& [target, volume] : volumes_) {
      if (volume.pod == pod && !unwritten_.contains(target)) record.volumes.push_back(volume);
    }
  }
  return record.volumes.empty() ? records_.RemoveRecord(pod.text()) : records_.WriteRecord(record);
}

Status VolumeTable::StoreVolume(const KataVolume& volume) {
  {
    base::MutexLock lock(mutex_);
    volumes_.insert_or_assign(volume.volume.target, volume);
    unwritten_.erase(volume.volume.target);
  }
  return WriteRecord(volume.pod);
}

Status VolumeTable::ForgetVolume(const api::PodUid& pod, const TargetPath& target) {
  {
    // It is in memory until its record is gone, so that its device stays taken.
    base::MutexLock lock(mutex_);
    if (!volumes_.contains(target)) return OkStatus();
    unwritten_.insert(target);
  }
  const Status written = WriteRecord(pod);
  base::MutexLock lock(mutex_);
  unwritten_.erase(target);
  RETURN_IF_ERROR(written);
  volumes_.erase(target);
  return OkStatus();
}

std::optional<KataVolume> VolumeTable::FindTarget(const TargetPath& target) const {
  base::MutexLock lock(mutex_);
  const auto found = volumes_.find(target);
  return found == volumes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<KataVolume> VolumeTable::FindVolume(const rpc::SandboxId& sandbox,
                                                  const api::PodUid& pod,
                                                  std::string_view host_volume_id) const {
  base::MutexLock lock(mutex_);
  for (const auto& [target, each] : volumes_) {
    if (each.sandbox == sandbox && (pod.empty() || each.pod == pod) &&
        each.volume.state == VolumeState::kPublished &&
        each.volume.host_volume_id == host_volume_id) {
      return each;
    }
  }
  return std::nullopt;
}

std::vector<KataVolume> VolumeTable::ListVolumes(const api::PodUid& pod) const {
  base::MutexLock lock(mutex_);
  std::vector<KataVolume> volumes;
  for (const auto& [target, each] : volumes_) {
    if (each.pod == pod) volumes.push_back(each);
  }
  return volumes;
}

std::vector<api::PodUid> VolumeTable::ListPods() const {
  base::MutexLock lock(mutex_);
  std::set<api::PodUid> pods;
  for (const auto& [target, each] : volumes_) pods.insert(each.pod);
  return {pods.begin(), pods.end()};
}

bool VolumeTable::IsUsedElsewhere(const KataVolume& volume) const {
  base::MutexLock lock(mutex_);
  return std::ranges::any_of(volumes_, [&](const auto& known) {
    return known.first != volume.volume.target &&
           known.second.volume.plan.device.number == volume.volume.plan.device.number;
  });
}

}  // namespace berth::crust::kata
