#include "node/volumes/fake_volume_manager.h"

namespace berth::node {

void FakeVolumeManager::ReportChanges() {
  std::function<void(const std::string&)> on_change;
  std::set<std::string> pods;
  {
    base::MutexLock lock(mutex_);
    on_change = on_change_;
    pods = wanted_;
    pods.insert(releasing_.begin(), releasing_.end());
    changed_.NotifyAll();
  }
  if (!on_change) return;
  for (const std::string& uid : pods) on_change(uid);
}

void FakeVolumeManager::SetReady(bool ready, std::string reason) {
  {
    base::MutexLock lock(mutex_);
    ready_ = ready;
    begun_ = false;
    reason_ = std::move(reason);
  }
  ReportChanges();
}

void FakeVolumeManager::SetBegun() {
  {
    base::MutexLock lock(mutex_);
    ready_ = false;
    begun_ = true;
    reason_ = "volume 'data': it is being set up";
  }
  ReportChanges();
}

void FakeVolumeManager::SetNoRoom(std::string reason) {
  {
    base::MutexLock lock(mutex_);
    ready_ = begun_ = false;
    no_room_ = true;
    reason_ = std::move(reason);
  }
  ReportChanges();
}

void FakeVolumeManager::SetReleases(bool releases) {
  {
    base::MutexLock lock(mutex_);
    releases_ = releases;
  }
  ReportChanges();
}

void FakeVolumeManager::Publish(const std::string& volume, volume::Published published) {
  base::MutexLock lock(mutex_);
  published_[volume] = std::move(published);
}

void FakeVolumeManager::Defer(DeferredVolume volume) {
  base::MutexLock lock(mutex_);
  deferred_.push_back(std::move(volume));
}

std::string FakeVolumeManager::placed_in(const std::string& uid) const {
  base::MutexLock lock(mutex_);
  const auto found = placed_in_.find(uid);
  return found == placed_in_.end() ? "" : found->second;
}

std::vector<DeferredVolume> FakeVolumeManager::Deferred(const std::string&) const {
  base::MutexLock lock(mutex_);
  return deferred_;
}

void FakeVolumeManager::NoteSandbox(const api::PodUid& pod, const rpc::SandboxId& sandbox) {
  base::MutexLock lock(mutex_);
  placed_in_[pod.text()] = sandbox.text();
}

void FakeVolumeManager::AddKnownPod(const std::string& uid) {
  base::MutexLock lock(mutex_);
  wanted_.insert(uid);
}

bool FakeVolumeManager::wanted(const std::string& uid) const {
  base::MutexLock lock(mutex_);
  return wanted_.contains(uid);
}

bool FakeVolumeManager::released(const std::string& uid) const {
  base::MutexLock lock(mutex_);
  return releasing_.contains(uid);
}

bool FakeVolumeManager::WaitReleased(const std::string& uid) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  base::MutexLock lock(mutex_);
  while (!releasing_.contains(uid)) {
    if (!changed_.WaitUntil(mutex_, deadline) && std::chrono::steady_clock::now() >= deadline)
      return false;
  }
  return true;
}

base::Status FakeVolumeManager::Start(std::function<void(const std::string& pod_uid)> on_change) {
  base::MutexLock lock(mutex_);
  on_change_ = std::move(on_change);
  return base::OkStatus();
}

void FakeVolumeManager::WantVolumes(std::shared_ptr<const api::Pod> pod) {
  base::MutexLock lock(mutex_);
  wanted_.insert(pod->uid());
  changed_.NotifyAll();
}

void FakeVolumeManager::ReleaseVolumes(const std::string& pod_uid) {
  base::MutexLock lock(mutex_);
  wanted_.erase(pod_uid);
  releasing_.insert(pod_uid);
  changed_.NotifyAll();
}

bool FakeVolumeManager::HasReleased(const std::string& pod_uid) const {
  base::MutexLock lock(mutex_);
  return releases_ && !wanted_.contains(pod_uid);
}

PodVolumes FakeVolumeManager::State(const std::string& pod_uid) const {
  base::MutexLock lock(mutex_);
  const bool wanted = wanted_.contains(pod_uid);
  return {.ready = ready_ && wanted,
          .begun = begun_ && wanted,
          .published = published_,
          .no_room = no_room_ && wanted,
          .reason = reason_};
}

std::vector<std::string> FakeVolumeManager::KnownPods() const {
  base::MutexLock lock(mutex_);
  return {wanted_.begin(), wanted_.end()};
}

}  // namespace berth::node
