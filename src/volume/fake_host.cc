#include "volume/fake_host.h"

#include <algorithm>

#include "api/time.h"

namespace berth::volume {
namespace {

std::string Key(const api::KindInfo& kind, std::string_view ns, std::string_view name) {
  return fmt::format("{}/{}/{}", kind.plural, ns, name);
}

}  // namespace

base::Status FakeMounter::FailureOf(std::string_view target) const {
  const auto it = failures_.find(target);
  return it == failures_.end() ? base::OkStatus() : it->second;
}

base::StatusOr<std::vector<platform::MountEntry>> FakeMounter::List() {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(FailureOf(""));
  return table_;
}

base::Status FakeMounter::Mount(const platform::MountRequest& request) {
  base::MutexLock lock(mutex_);
  requests_.push_back(request);
  RETURN_IF_ERROR(FailureOf(request.target));
  if (std::ranges::find(request.options, "remount") != request.options.end()) {
    const auto top = std::ranges::find(table_.rbegin(), table_.rend(), request.target,
                                       &platform::MountEntry::mount_point);
    if (top == table_.rend()) return base::Error(base::StatusCode::kInvalidArgument, "no mount");
    top->options = request.options;
    return base::OkStatus();
  }
  platform::MountEntry entry;
  entry.id = next_id_++;
  entry.root = "/";
  entry.mount_point = request.target;
  entry.options = request.options;
  entry.fs_type = request.fs_type;
  entry.source = request.source;
  table_.push_back(std::move(entry));
  return base::OkStatus();
}

base::Status FakeMounter::Remove(std::string_view target) {
  RETURN_IF_ERROR(FailureOf(target));
  for (auto it = table_.rbegin(); it != table_.rend(); ++it) {
    if (it->mount_point == target) {
      table_.erase(std::next(it).base());
      break;
    }
  }
  return base::OkStatus();
}

base::Status FakeMounter::Unmount(std::string_view target) {
  base::MutexLock lock(mutex_);
  return Remove(target);
}

base::Status FakeMounter::UnmountLazy(std::string_view target) {
  base::MutexLock lock(mutex_);
  return Remove(target);
}

base::Status FakeMounter::MakeShared(std::string_view folder) {
  base::MutexLock lock(mutex_);
  return FailureOf(folder);
}

void FakeMounter::Add(const std::string& target, const std::string& fs_type,
                      const std::string& source, std::vector<std::string> options) {
  base::MutexLock lock(mutex_);
  platform::MountEntry entry;
  entry.id = next_id_++;
  entry.root = "/";
  entry.mount_point = target;
  entry.fs_type = fs_type;
  entry.source = source;
  entry.options = std::move(options);
  table_.push_back(std::move(entry));
}

bool FakeMounter::IsMounted(std::string_view target) const {
  base::MutexLock lock(mutex_);
  return platform::FindMount(table_, target) != nullptr;
}

std::vector<platform::MountRequest> FakeMounter::requests() const {
  base::MutexLock lock(mutex_);
  return requests_;
}

void FakeMounter::Fail(const std::string& target, const base::Status& status) {
  base::MutexLock lock(mutex_);
  failures_[target] = status;
}

base::StatusOr<platform::CommandResult> FakeExec::Run(const platform::Command& command) {
  Answer answer;
  {
    base::MutexLock lock(mutex_);
    commands_.push_back(command);
    answer = answer_;
  }
  return answer ? answer(command) : platform::CommandResult();
}

void FakeExec::SetAnswer(Answer answer) {
  base::MutexLock lock(mutex_);
  answer_ = std::move(answer);
}

std::vector<platform::Command> FakeExec::commands() const {
  base::MutexLock lock(mutex_);
  return commands_;
}

base::Status FakeHelperMounts::Mount(const HelperMount& mount) {
  base::MutexLock lock(mutex_);
  mounts_.push_back(mount);
  RETURN_IF_ERROR(failure_);
  if (mounter_.IsMounted(mount.target)) {
    return base::Error(base::StatusCode::kAlreadyExists, "something is mounted at '{}'",
                       mount.target);
  }
  // As the kernel shows it.
  const std::string type = mount.fs_type == "glusterfs" ? "fuse.glusterfs" : mount.fs_type;
  mounter_.Add(mount.target, type, mount.source, mount.options);
  return base::OkStatus();
}

base::Status FakeHelperMounts::Unmount(std::string_view /*plugin*/,
                                       const platform::MountPoint& target) {
  return mounter_.Unmount(target.text());
}

std::vector<HelperMount> FakeHelperMounts::mounts() const {
  base::MutexLock lock(mutex_);
  return mounts_;
}

void FakeHelperMounts::FailMount(const base::Status& status) {
  base::MutexLock lock(mutex_);
  failure_ = status;
}

void FakeEventSink::Record(const base::ObjectReference& object, base::EventType type,
                           std::string_view reason, std::string_view message) {
  base::MutexLock lock(mutex_);
  events_.push_back({object, type, std::string(reason), std::string(message)});
}

std::vector<FakeEventSink::Event> FakeEventSink::events() const {
  base::MutexLock lock(mutex_);
  return events_;
}

platform::Mounter& FakeHost::mounter() {
  if (real_mounter_ != nullptr) return *real_mounter_;
  return mounter_;
}

base::StatusOr<base::Json> FakeHost::GetObject(const api::KindInfo& kind, std::string_view ns,
                                               std::string_view name) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(api_failure_);
  const auto it = objects_.find(Key(kind, ns, name));
  if (it == objects_.end()) {
    return base::Error(base::StatusCode::kNotFound, "{} '{}' not found", kind.group_resource(),
                       name);
  }
  return it->second;
}

base::StatusOr<base::Json> FakeHost::CreateToken(std::string_view ns, std::string_view account,
                                                 const base::Json& request) {
  base::MutexLock lock(mutex_);
  RETURN_IF_ERROR(api_failure_);
  token_requests_.push_back(request);
  base::Json answer = request;
  base::json::Set(answer, {"status", "token"},
                  fmt::format("token-of-{}/{}-{}", ns, account, token_requests_.size()));
  base::json::Set(answer, {"status", "expirationTimestamp"},
                  api::FormatTime(clock_.Now() + std::chrono::hours(1)));
  return answer;
}

base::StatusOr<std::vector<platform::DeviceFile>> FakeHost::LookAtDevices(
    const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(auto found, platform::LookAtDevices(paths));
  base::MutexLock lock(mutex_);
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto device = devices_.find(paths[i]);
    if (device == devices_.end() || !found[i].present) continue;
    found[i].block = true;
    found[i].number = device->second;
  }
  return found;
}

void FakeHost::SetDevice(const std::string& path, dev_t number) {
  base::MutexLock lock(mutex_);
  devices_[path] = number;
}

void FakeHost::Put(const api::KindInfo& kind, const base::Json& object) {
  base::MutexLock lock(mutex_);
  objects_[Key(kind, base::json::String(object, {"metadata", "namespace"}),
               base::json::String(object, {"metadata", "name"}))] = object;
}

void FakeHost::Remove(const api::KindInfo& kind, std::string_view ns, std::string_view name) {
  base::MutexLock lock(mutex_);
  objects_.erase(Key(kind, ns, name));
}

void FakeHost::FailApi(const base::Status& status) {
  base::MutexLock lock(mutex_);
  api_failure_ = status;
}

std::vector<base::Json> FakeHost::token_requests() const {
  base::MutexLock lock(mutex_);
  return token_requests_;
}

}  // namespace berth::volume
