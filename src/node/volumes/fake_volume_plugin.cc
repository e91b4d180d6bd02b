#include "node/volumes/fake_volume_plugin.h"

#include <algorithm>

#include "api/kinds/csi_names.h"
#include "base/ids.h"
#include "platform/files/durable_file.h"

namespace berth::node {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;

std::vector<std::string> FakeVolumePlugin::Calls() const {
  MutexLock lock(mutex_);
  return calls_;
}

size_t FakeVolumePlugin::CallCount(const std::string& call) const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(calls_.begin(), calls_.end(),
                    [&call](const std::string& made) { return made.starts_with(call); }));
}

bool FakeVolumePlugin::WaitForCalls(const std::string& call, size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (true) {
    const auto made = std::count_if(calls_.begin(), calls_.end(),
                                    [&call](const std::string& c) { return c.starts_with(call); });
    if (static_cast<size_t>(made) >= count) return true;
    if (!changed_.WaitUntil(mutex_, deadline)) return false;
  }
}

void FakeVolumePlugin::FailNext(const std::string& method, Status status, bool takes_effect) {
  MutexLock lock(mutex_);
  failures_[method] = {.status = std::move(status), .takes_effect = takes_effect};
}

void FakeVolumePlugin::FailAll(const std::string& method, Status status) {
  MutexLock lock(mutex_);
  failures_.erase(method);
  if (!status.ok()) failures_[method] = {.status = std::move(status), .once = false};
}

void FakeVolumePlugin::Hang(const std::string& method, const std::string& subject) {
  MutexLock lock(mutex_);
  hang_method_ = method;
  hang_subject_ = subject;
}

void FakeVolumePlugin::Unhang() {
  MutexLock lock(mutex_);
  hang_method_.clear();
  changed_.NotifyAll();
}

void FakeVolumePlugin::SetObserver(std::function<void(const std::string&)> observer) {
  MutexLock lock(mutex_);
  observer_ = std::move(observer);
}

std::set<std::string> FakeVolumePlugin::Mounted() const {
  MutexLock lock(mutex_);
  return mounted_;
}

api::Labels FakeVolumePlugin::LastPublishContext() const {
  MutexLock lock(mutex_);
  return publish_context_;
}

void FakeVolumePlugin::Reboot() {
  host_.fake_mounter().Clear();
  MutexLock lock(mutex_);
  mounted_.clear();
}

Status FakeVolumePlugin::Call(const std::string& method, const std::string& subject,
                              const std::function<Status()>& effect) {
  const std::string call = fmt::format("{} {}", method, subject);
  std::function<void(const std::string&)> observer;
  Failure failure;
  {
    MutexLock lock(mutex_);
    calls_.push_back(call);
    changed_.NotifyAll();
    while (hang_method_ == method && subject.find(hang_subject_) != std::string::npos) {
      changed_.Wait(mutex_);
    }
    observer = observer_;
    if (const auto found = failures_.find(method); found != failures_.end()) {
      failure = found->second;
      if (failure.once) failures_.erase(found);
    }
  }
  if (observer) observer(call);
  if (!failure.status.ok() && !failure.takes_effect) return failure.status;
  RETURN_IF_ERROR(effect());
  return failure.status;
}

Status FakeVolumePlugin::MountOnce(const std::string& path) {
  if (host_.fake_mounter().IsMounted(path)) return OkStatus();
  return host_.mounter().Mount({.source = "fake", .target = path, .fs_type = "fake"});
}

bool FakeVolumePlugin::Supports(const volume::VolumeSpec& spec) const {
  return spec.pod_volume.source_type() == options_.source_type;
}

StatusOr<std::optional<std::string>> FakeVolumePlugin::DeviceName(
    const volume::VolumeSpec& spec) const {
  if (spec.pv == nullptr) return std::optional<std::string>();
  return std::optional<std::string>(api::UniqueVolumeName(
      spec.pv->csi().driver(), api::VolumeHandle(spec.pv->csi().volume_handle())));
}

StatusOr<bool> FakeVolumePlugin::NeedsAttach(const volume::VolumeSpec&) const {
  return options_.needs_attach;
}

StatusOr<base::Json> FakeVolumePlugin::DeviceState(const volume::VolumeSpec& spec) const {
  return base::Json{{"handle", spec.pv->csi().volume_handle()}};
}

StatusOr<base::Json> FakeVolumePlugin::PodState(const api::Pod&,
                                                const volume::VolumeSpec& spec) const {
  return base::Json{{"volume", spec.name}};
}

Status FakeVolumePlugin::MountDevice(const api::Pod&, const volume::VolumeSpec& spec,
                                     const api::Labels& publish_context) {
  const std::string name = **DeviceName(spec);
  const std::string path = DevicePath({.device_name = name});
  return Call("MountDevice", name, [&]() -> Status {
    if (!options_.mounts_with_pods) RETURN_IF_ERROR(MountOnce(path));
    MutexLock lock(mutex_);
    mounted_.insert(name);
    publish_context_ = publish_context;
    return OkStatus();
  });
}

Status FakeVolumePlugin::UnmountDevice(const volume::DeviceRecord& record) {
  return Call("UnmountDevice", record.device_name, [&]() -> Status {
    RETURN_IF_ERROR(host_.mounter().Unmount(DevicePath(record)));
    MutexLock lock(mutex_);
    mounted_.erase(record.device_name);
    return OkStatus();
  });
}

std::string FakeVolumePlugin::DevicePath(const volume::DeviceRecord& record) const {
  return fmt::format("{}/devices/{}", host_.paths().root(), base::Sha256Hex(record.device_name));
}

StatusOr<volume::VolumePlugin::Found> FakeVolumePlugin::FindOnNode() const {
  MutexLock lock(mutex_);
  return found_;
}

void FakeVolumePlugin::SetFound(Found found) {
  MutexLock lock(mutex_);
  found_ = std::move(found);
}

void FakeVolumePlugin::SetHostFolder(std::string folder) {
  MutexLock lock(mutex_);
  host_folder_ = std::move(folder);
}

StatusOr<volume::VolumePlugin::Deferral> FakeVolumePlugin::CanDefer(
    const api::Pod& pod, const volume::VolumeSpec& spec) {
  return options_.defers ? Deferral() : VolumePlugin::CanDefer(pod, spec);
}

StatusOr<volume::Published> FakeVolumePlugin::SetUp(const api::Pod& pod,
                                                    const volume::VolumeSpec& spec,
                                                    const api::Labels& publish_context) {
  const std::string subject = pod.uid() + "/" + spec.folder_name();
  const std::string folder =
      host_.paths().PodVolume(api::PodUid(pod.uid()), name(), api::VolumeName(spec.folder_name()));
  const std::string path = folder + "/mount";
  const bool defer = options_.defers && !spec.runtime_file_systems.empty();
  RETURN_IF_ERROR(Call("SetUp", subject, [&]() -> Status {
    if (spec.pv != nullptr && !Mounted().contains(**DeviceName(spec))) {
      return Error(StatusCode::kFailedPrecondition, "the device is not mounted");
    }
    RETURN_IF_ERROR(platform::MakeFolders(path));
    if (options_.mounts_with_pods && spec.pv != nullptr) {
      RETURN_IF_ERROR(MountOnce(DevicePath({.device_name = **DeviceName(spec)})));
    }
    if (!defer) RETURN_IF_ERROR(MountOnce(path));
    MutexLock lock(mutex_);
    if (!defer) mounted_.insert(subject);
    publish_context_ = publish_context;
    return OkStatus();
  }));
  MutexLock lock(mutex_);
  volume::Published published{.path = host_folder_.empty() ? path : host_folder_,
                              .block = spec.block()};
  if (defer) {
    published.deferred = {.source = "/dev/" + spec.folder_name(),
                          .fs_type = spec.runtime_file_systems.front()};
  }
  return published;
}

Status FakeVolumePlugin::TearDown(const volume::PodVolumeRecord& record) {
  const std::string subject = record.pod_uid + "/" + record.folder_name;
  return Call("TearDown", subject, [&]() -> Status {
    const std::string folder = host_.paths().PodVolume(api::PodUid(record.pod_uid), name(),
                                                       api::VolumeName(record.folder_name));
    RETURN_IF_ERROR(host_.mounter().Unmount(folder + "/mount"));
    RETURN_IF_ERROR(platform::RemoveTree(folder));
    bool last = false;
    {
      MutexLock lock(mutex_);
      mounted_.erase(subject);
      last = std::none_of(mounted_.begin(), mounted_.end(), [&](const std::string& other) {
        return other.ends_with("/" + record.folder_name);
      });
    }
    if (!last || !options_.mounts_with_pods || record.device_name.empty()) return OkStatus();
    return host_.mounter().Unmount(DevicePath({.device_name = record.device_name}));
  });
}

Status FakeVolumePlugin::Expand(const volume::PodVolumeRecord& record, const volume::VolumeSpec&,
                                int64_t bytes) {
  return Call("Expand", fmt::format("{} {}", record.folder_name, bytes), [] { return OkStatus(); });
}

StatusOr<volume::VolumePlugin::Stats> FakeVolumePlugin::GetStats(const volume::PodVolumeRecord&) {
  return Stats{};
}

void FakeVolumePlugin::SetCondition(StatusOr<std::optional<Condition>> condition) {
  MutexLock lock(mutex_);
  condition_ = std::move(condition);
}

StatusOr<std::optional<volume::VolumePlugin::Condition>> FakeVolumePlugin::GetCondition(
    const volume::PodVolumeRecord& record) {
  MutexLock lock(mutex_);
  while (hang_method_ == "GetCondition" &&
         record.folder_name.find(hang_subject_) != std::string::npos) {
    changed_.Wait(mutex_);
  }
  return condition_;
}

}  // namespace berth::node
