#include "crust/sandbox_table.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMaxSandboxes = 8192;

Status UnknownSandbox(std::string_view id) {
  return Error(StatusCode::kNotFound,
               "sandbox {} is not known: berth-oci created no container of it, or it has ended",
               Quote(id));
}

}  // namespace

SandboxTable::Hold::~Hold() {
  if (entry_ != nullptr) table_->ReleaseEntry(*entry_);
}

StatusOr<SandboxTable::Hold> SandboxTable::AddSandbox(SandboxRecord record) {
  const std::string id = record.sandbox_id;
  auto entry = std::make_shared<Entry>(std::move(record));
  entry->busy = true;
  base::MutexLock lock(mutex_);
  if (entries_.size() >= kMaxSandboxes) {
    return Error(StatusCode::kResourceExhausted, "there are {} sandboxes already", entries_.size());
  }
  if (!entries_.emplace(id, entry).second) {
    return Error(StatusCode::kAborted, "another call for sandbox {} is under way", Quote(id));
  }
  return Hold(*this, std::move(entry));
}

StatusOr<SandboxTable::Hold> SandboxTable::HoldSandbox(const std::string& sandbox_id,
                                                       const HoldOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() +
                        (options.patience.count() != 0 ? options.patience : patience_);
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(sandbox_id);
  if (found == entries_.end()) return UnknownSandbox(sandbox_id);
  std::shared_ptr<Entry> entry = found->second;
  while (entry->busy) {
    if (options.interrupt) entry->unwanted = true;
    if (!released_.WaitUntil(mutex_, deadline)) {
      return Error(StatusCode::kAborted, "another call for sandbox {} is under way{}{}",
                   Quote(sandbox_id), entry->progress.empty() ? "" : ": ", entry->progress);
    }
  }
  if (entry->gone) return UnknownSandbox(sandbox_id);
  entry->busy = true;
  return Hold(*this, std::move(entry));
}

void SandboxTable::ReleaseEntry(Entry& entry) {
  base::MutexLock lock(mutex_);
  entry.busy = false;
  entry.unwanted = false;
  entry.progress.clear();
  released_.NotifyAll();
}

void SandboxTable::ForgetSandbox(const std::string& sandbox_id) {
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(sandbox_id);
  if (found == entries_.end()) return;
  found->second->gone = true;
  entries_.erase(found);
}

bool SandboxTable::Contains(const std::string& sandbox_id) {
  base::MutexLock lock(mutex_);
  return entries_.contains(sandbox_id);
}

std::vector<std::string> SandboxTable::FindSandboxes(
    const std::function<bool(const api::PodUid& pod)>& matches) {
  base::MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, entry] : entries_) {
    if (matches(entry->pod_uid)) ids.push_back(id);
  }
  return ids;
}

std::vector<std::string> SandboxTable::FindSandboxes(const api::PodUid& pod) {
  return FindSandboxes([&](const api::PodUid& other) { return other == pod; });
}

void SandboxTable::SetProgress(Entry& entry, std::string progress) {
  base::MutexLock lock(mutex_);
  entry.progress = std::move(progress);
}

void SandboxTable::RecordUse(const std::string& sandbox_id, const VolumeRecord& volume) {
  if (!volume.plan.device.block) return;
  base::MutexLock lock(mutex_);
  uses_[{rpc::SandboxId(sandbox_id), volume.target}] = {
      .device = volume.plan.device.number,
      .writes = volume.state == VolumeState::kPublished && !volume.plan.read_only()};
}

void SandboxTable::RemoveUse(const rpc::SandboxId& sandbox, const platform::TargetPath& target) {
  base::MutexLock lock(mutex_);
  uses_.erase({sandbox, target});
}

template <typename Predicate>
bool SandboxTable::HasOtherUse(const std::string& sandbox_id, const VolumeRecord& volume,
                               Predicate matches) {
  const std::pair own{rpc::SandboxId(sandbox_id), volume.target};
  base::MutexLock lock(mutex_);
  return std::ranges::any_of(uses_, [&](const auto& use) {
    return use.second.device == volume.plan.device.number && matches(use.second) &&
           use.first != own;
  });
}

bool SandboxTable::IsUsedElsewhere(const std::string& sandbox_id, const VolumeRecord& volume) {
  return HasOtherUse(sandbox_id, volume, [](const Use&) { return true; });
}

bool SandboxTable::IsWrittenElsewhere(const std::string& sandbox_id, const VolumeRecord& volume) {
  return HasOtherUse(sandbox_id, volume, [](const Use& use) { return use.writes; });
}

}  // namespace berth::crust
