// Remembers to which content each snapshot of the driver belongs (snapshotter.h).
#include "controllers/snapshotter/snapshotter.h"

namespace berth::controllers::snapshotter {

using base::MutexLock;

std::vector<std::shared_ptr<const api::VolumeSnapshotContent>> Snapshotter::FindOtherContents(
    const Content& content, const std::string& handle) const {
  auto others = contents_.ByIndex(kContentsByHandle, handle);
  std::erase_if(others, [&](const auto& other) {
    return other->name() == content.name() || other->driver() != content.driver();
  });
  return others;
}

std::string Snapshotter::ReserveHandle(const Content& content, const std::string& handle) {
  {
    // A handle that another worker got a moment ago is not in any object yet.
    MutexLock lock(mutex_);
    const auto [it, taken] = reserved_.try_emplace(handle, content.name());
    if (it->second != content.name()) return it->second;
  }
  // `reserved_` is checked first, because a worker releases a handle only when the informer shows
  // its object.
  const auto others = FindOtherContents(content, handle);
  if (others.empty()) return "";
  ReleaseHandle(content, handle);
  return others.front()->name();
}

void Snapshotter::ReleaseHandle(const Content& content, const std::string& handle) {
  MutexLock lock(mutex_);
  const auto it = reserved_.find(handle);
  if (it != reserved_.end() && it->second == content.name()) reserved_.erase(it);
}

void Snapshotter::ForgetContent(const Content& gone) {
  MutexLock lock(mutex_);
  std::erase_if(reserved_, [&](const auto& given) { return given.second == gone.name(); });
}

void Snapshotter::WakeOthers(const Content& content) {
  for (const std::string& handle : {content.snapshot_handle(), content.source_snapshot_handle()}) {
    if (handle.empty()) continue;
    for (const auto& other : FindOtherContents(content, handle)) {
      if (other->deleting()) queue_.AddNow(other->name());
    }
  }
}

}  // namespace berth::controllers::snapshotter
