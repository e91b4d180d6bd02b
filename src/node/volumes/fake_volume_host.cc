#include "node/volumes/fake_volume_host.h"

#include <algorithm>
#include <filesystem>

namespace berth::node {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Status;
using base::StatusCode;

base::StatusOr<std::vector<platform::MountEntry>> FakeMounter::List() {
  MutexLock lock(mutex_);
  return table_;
}

Status FakeMounter::Mount(const platform::MountRequest& request) {
  // As in the kernel, the mount is on the folder that the path leads to, and a bind shows the file
  // system of its source.
  std::error_code unresolved;
  const std::string target = request.target.starts_with("/proc/self/fd/")
                                 ? std::filesystem::canonical(request.target, unresolved).string()
                                 : request.target;
  const std::string source = std::filesystem::weakly_canonical(request.source, unresolved).string();
  MutexLock lock(mutex_);
  platform::MountEntry entry;
  entry.id = next_id_++;
  entry.minor = static_cast<uint32_t>(entry.id);
  entry.root = "/";
  entry.mount_point = target;
  entry.options = request.options;
  entry.fs_type = request.fs_type;
  entry.source = request.source;
  if (const platform::MountEntry* from = platform::FindMount(table_, source); from != nullptr) {
    entry.major = from->major;
    entry.minor = from->minor;
    entry.root = from->root;
  }
  table_.push_back(std::move(entry));
  return OkStatus();
}

Status FakeMounter::Unmount(std::string_view target) {
  MutexLock lock(mutex_);
  if (const auto busy = busy_.find(target); busy != busy_.end() && busy->second) {
    return Error(StatusCode::kFailedPrecondition, "unmount {}: Device or resource busy", target);
  }
  const auto top = std::find_if(table_.rbegin(), table_.rend(), [target](const auto& entry) {
    return entry.mount_point == target;
  });
  if (top != table_.rend()) table_.erase(std::next(top).base());
  return OkStatus();
}

Status FakeMounter::MakeShared(std::string_view folder) {
  if (IsMounted(folder)) return OkStatus();
  return Mount({.source = std::string(folder),
                .target = std::string(folder),
                .fs_type = "",
                .options = {"bind", "rshared"}});
}

bool FakeMounter::IsMounted(std::string_view target) {
  MutexLock lock(mutex_);
  return platform::FindMount(table_, target) != nullptr;
}

bool FakeMounter::IsDead(const platform::MountEntry& mount) {
  MutexLock lock(mutex_);
  return dead_.contains(mount.id);
}

void FakeMounter::Kill(std::string_view target) {
  MutexLock lock(mutex_);
  const platform::MountEntry* mount = platform::FindMount(table_, target);
  if (mount == nullptr) std::abort();
  dead_.insert(mount->id);
}

void FakeMounter::Clear() {
  MutexLock lock(mutex_);
  table_.clear();
}

void FakeMounter::SetBusy(std::string target, bool busy) {
  MutexLock lock(mutex_);
  busy_[std::move(target)] = busy;
}

void FakeEvents::Record(const base::ObjectReference& object, base::EventType type,
                        std::string_view reason, std::string_view message) {
  MutexLock lock(mutex_);
  events_.push_back(fmt::format("{} {} {} {} {}", object.kind, object.name,
                                type == base::EventType::kWarning ? "Warning" : "Normal", reason,
                                message));
  changed_.NotifyAll();
}

std::vector<std::string> FakeEvents::All() const {
  MutexLock lock(mutex_);
  return events_;
}

bool FakeEvents::WaitFor(const std::vector<std::string>& parts) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (true) {
    for (const std::string& event : events_) {
      if (std::all_of(parts.begin(), parts.end(), [&event](const std::string& part) {
            return event.find(part) != std::string::npos;
          })) {
        return true;
      }
    }
    if (!changed_.WaitUntil(mutex_, deadline)) return false;
  }
}

size_t FakeEvents::Count(const std::string& part) const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(std::count_if(
      events_.begin(), events_.end(),
      [&part](const std::string& event) { return event.find(part) != std::string::npos; }));
}

platform::Exec& FakeVolumeHost::exec(std::string_view) { return *exec_; }

}  // namespace berth::node
