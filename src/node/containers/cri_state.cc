#include "node/containers/cri_state.h"

#include <pthread.h>

#include <algorithm>

#include "base/log.h"
#include "node/containers/cri_labels.h"
#include "node/containers/cri_listing.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr milliseconds kConnectFirst{100};
constexpr milliseconds kConnectMax{3000};

template <typename T>
T* FindById(std::vector<T>& items, const decltype(T::id)& id) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const T& i) { return i.id == id; });
  return it == items.end() ? nullptr : &*it;
}

}  // namespace

CriState::CriState(rpc::CriClient& cri, std::string endpoint, CriListWaits waits)
    : cri_(cri),
      endpoint_(std::move(endpoint)),
      waits_(waits),
      reachable_(base::Error(StatusCode::kUnavailable,
                             "container runtime at '{}' is not reachable: not yet connected",
                             endpoint_)),
      lister_(cri, exits_, [this](const std::string& uid) { return Pod(uid); }) {}

CriState::~CriState() { Stop(); }

void CriState::Start(OnChange on_change) {
  on_change_ = std::move(on_change);
  const Status watching = exits_.Start([this](const std::string&) { ScheduleList(); });
  if (!watching.ok()) LOG_WARNING("{}", base::ToString(watching));
  threads_.emplace_back([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "cri-list");
    RunLists(stop);
  });
  threads_.emplace_back([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "cri-events");
    RunEvents(stop);
  });
}

void CriState::Stop() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  exits_.Stop();
}

Status CriState::Reachable() const {
  base::MutexLock lock(mutex_);
  return reachable_;
}

bool CriState::IsKnown() const {
  base::MutexLock lock(mutex_);
  return told_reachable_;
}

PodRuntime CriState::Pod(const std::string& uid) const {
  base::MutexLock lock(mutex_);
  const auto it = pods_.find(uid);
  if (it != pods_.end()) return it->second;
  PodRuntime none;
  none.uid = uid;
  return none;
}

std::vector<std::string> CriState::Pods() const {
  base::MutexLock lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [uid, pod] : pods_) out.push_back(uid);
  return out;
}

std::string CriState::PodOf(const ContainerId& container) const {
  base::MutexLock lock(mutex_);
  for (const auto& [uid, pod] : pods_) {
    if (pod.ById(container) != nullptr) return uid;
  }
  return "";
}

void CriState::PutSandbox(const api::PodUid& pod_uid, std::string_view ns, std::string_view name,
                          SandboxState sandbox) {
  base::MutexLock lock(mutex_);
  told_[sandbox.id.text()] = ++sequence_;
  PodRuntime& pod = pods_[pod_uid.text()];
  pod.uid = pod_uid.text();
  pod.ns = ns;
  pod.name = name;
  if (SandboxState* present = FindById(pod.sandboxes, sandbox.id); present != nullptr) {
    *present = std::move(sandbox);
  } else {
    pod.sandboxes.insert(pod.sandboxes.begin(), std::move(sandbox));
  }
}

void CriState::PutContainer(const api::PodUid& pod_uid, ContainerState container) {
  base::MutexLock lock(mutex_);
  told_[container.id.text()] = ++sequence_;
  PodRuntime& pod = pods_[pod_uid.text()];
  pod.uid = pod_uid.text();
  // The details, such as its pid, are read a little later, so that they do not delay the next
  // start.
  if (container.running()) ScheduleListLocked(waits_.after_start);
  if (ContainerState* present = FindById(pod.containers, container.id); present != nullptr) {
    *present = std::move(container);
  } else {
    pod.containers.insert(pod.containers.begin(), std::move(container));
  }
}

void CriState::RemoveSandbox(const api::PodUid& pod_uid, const SandboxId& id) {
  base::MutexLock lock(mutex_);
  told_[id.text()] = ++sequence_;
  const auto it = pods_.find(pod_uid.text());
  if (it == pods_.end()) return;
  PodRuntime& pod = it->second;
  for (const ContainerState& container : pod.containers) {
    if (container.sandbox_id == id) told_[container.id.text()] = sequence_;
  }
  std::erase_if(pod.sandboxes, [&](const SandboxState& s) { return s.id == id; });
  std::erase_if(pod.containers, [&](const ContainerState& c) { return c.sandbox_id == id; });
  if (it->second.empty()) pods_.erase(it);
}

void CriState::RemoveContainer(const api::PodUid& pod_uid, const ContainerId& id) {
  base::MutexLock lock(mutex_);
  told_[id.text()] = ++sequence_;
  const auto it = pods_.find(pod_uid.text());
  if (it == pods_.end()) return;
  std::erase_if(it->second.containers, [&](const ContainerState& c) { return c.id == id; });
  if (it->second.empty()) pods_.erase(it);
}

Status CriState::Refresh(const std::string& uid) {
  uint64_t sequence = 0;
  {
    base::MutexLock lock(mutex_);
    sequence = sequence_;
  }
  ASSIGN_OR_RETURN(PodListing listing, lister_.ListPods(uid));
  for (const std::string& changed : ApplyListing(uid, std::move(listing), sequence))
    on_change_(changed);
  return base::OkStatus();
}

std::vector<std::string> CriState::ApplyListing(const std::string& only_uid, PodListing listing,
                                                uint64_t sequence) {
  std::vector<std::string> changed;
  base::MutexLock lock(mutex_);
  // A report of the caller that came after the listing began is newer than the listing.
  const auto newer = [&](const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = told_.find(id);
    return it != told_.end() && it->second > sequence;
  };
  const auto merge = [&](auto& listed, const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(listed, [&](const auto& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return newer(item.id.text());
    });
    for (const auto& item : known) {
      if (newer(item.id.text())) listed.push_back(item);
    }
  };

  std::vector<std::string> uids;
  if (!only_uid.empty()) {
    uids.push_back(only_uid);
  } else {
    for (const auto& [uid, pod] : pods_) uids.push_back(uid);
    for (const auto& [uid, pod] : listing) {
      if (!pods_.contains(uid)) uids.push_back(uid);
    }
  }
  for (const std::string& uid : uids) {
    PodRuntime& known = pods_[uid];
    PodRuntime& listed = listing[uid];
    merge(listed.sandboxes, known.sandboxes);
    merge(listed.containers, known.containers);
    SortNewestFirst(listed);
    if (listed.sandboxes != known.sandboxes || listed.containers != known.containers) {
      changed.push_back(uid);
    }
    if (!listed.ns.empty()) {
      known.ns = listed.ns;
      known.name = listed.name;
    }
    known.uid = uid;
    known.sandboxes = std::move(listed.sandboxes);
    known.containers = std::move(listed.containers);
    if (known.empty()) pods_.erase(uid);
  }
  if (only_uid.empty()) {
    std::erase_if(told_, [&](const auto& entry) { return entry.second <= sequence; });
  }
  return changed;
}

Status CriState::ListAll() {
  uint64_t sequence = 0;
  {
    base::MutexLock lock(mutex_);
    sequence = sequence_;
  }
  if (!Reachable().ok()) RETURN_IF_ERROR(AskVersion());
  ASSIGN_OR_RETURN(PodListing listing, lister_.ListPods(""));
  const std::vector<std::string> changed = ApplyListing("", std::move(listing), sequence);
  // SetReachable comes before the changes, because a pod that is notified of a change must find the
  // runtime reachable.
  SetReachable(base::OkStatus());
  for (const std::string& uid : changed) on_change_(uid);
  return base::OkStatus();
}

Status CriState::AskVersion() {
  ASSIGN_OR_RETURN(const auto version, cri_.Version(cri::VersionRequest(), kListTimeout));
  base::MutexLock lock(mutex_);
  version_ = {version.runtime_name(), version.runtime_version()};
  return base::OkStatus();
}

std::pair<std::string, std::string> CriState::Version() const {
  base::MutexLock lock(mutex_);
  return version_;
}

void CriState::SetReachable(Status status) {
  {
    base::MutexLock lock(mutex_);
    const bool first = !std::exchange(told_reachable_, true);
    if (!first && status.ok() == reachable_.ok()) {
      reachable_ = std::move(status);
      return;
    }
    reachable_ = status;
    wake_.NotifyAll();
  }
  if (status.ok()) {
    LOG_INFO("container runtime at {} is reachable", base::Quote(endpoint_));
  } else {
    LOG_WARNING("{}", base::Message(status));
  }
  if (on_reachable_) on_reachable_();
}

void CriState::ScheduleList() {
  base::MutexLock lock(mutex_);
  ScheduleListLocked(waits_.first);
}

void CriState::ScheduleListLocked(milliseconds first) {
  hurry_ = hurry_.has_value() ? std::min(*hurry_, first) : first;
  wake_.NotifyAll();
}

bool CriState::WaitForTurn(milliseconds& interval) {
  base::MutexLock lock(mutex_);
  auto began = std::chrono::steady_clock::now();
  while (!stopping_) {
    if (hurry_.has_value()) {
      began = std::min(began + interval, std::chrono::steady_clock::now());
      interval = *std::exchange(hurry_, std::nullopt);
    }
    const milliseconds limit = streaming_ ? waits_.repair : waits_.longest;
    const auto due = began + std::min(interval, limit);
    if (std::chrono::steady_clock::now() >= due) {
      interval = std::min(interval * waits_.growth, limit);
      return true;
    }
    wake_.WaitUntil(mutex_, due);
  }
  return false;
}

void CriState::RunLists(std::stop_token stop) {
  milliseconds retry = kConnectFirst;
  milliseconds interval = waits_.first;
  while (!stop.stop_requested()) {
    const Status listed = ListAll();
    if (listed.ok()) {
      retry = kConnectFirst;
      if (!WaitForTurn(interval)) return;
      continue;
    }
    if (listed.code() == StatusCode::kCancelled)
      return;  // CriClient::CancelAll: this process stops
    SetReachable(base::Error(StatusCode::kUnavailable,
                             "container runtime at '{}' is not reachable: {}", endpoint_,
                             base::Message(listed)));
    const auto due = std::chrono::steady_clock::now() + retry;
    retry = std::min(retry * 2, kConnectMax);
    base::MutexLock lock(mutex_);
    while (!stopping_ && wake_.WaitUntil(mutex_, due)) {
    }
  }
}

void CriState::RunEvents(std::stop_token stop) {
  const auto set_streaming = [this](bool streaming) {
    base::MutexLock lock(mutex_);
    streaming_ = streaming;
    wake_.NotifyAll();
  };
  while (!stop.stop_requested()) {
    {
      base::MutexLock lock(mutex_);
      while (!stopping_ && !reachable_.ok()) wake_.Wait(mutex_);
      if (stopping_) return;
    }
    const Status ended =
        cri_.GetContainerEvents(stop, [&](const cri::ContainerEventResponse& event) {
          set_streaming(true);
          std::string uid = ValueOf(event.pod_sandbox_status().labels(), labels::kPodUid);
          if (uid.empty()) uid = PodOf(ContainerId(event.container_id()));
          if (uid.empty() || !Refresh(uid).ok()) ScheduleList();
        });
    set_streaming(false);
    ScheduleList();  // events may have been lost
    base::MutexLock lock(mutex_);
    if (ended.code() == StatusCode::kUnimplemented) {
      // The runtime may have event streams after an upgrade, and for that it restarts, so this
      // waits until the runtime is not reachable.
      while (!stopping_ && reachable_.ok()) wake_.Wait(mutex_);
    } else {
      const auto due = std::chrono::steady_clock::now() + kConnectMax;
      while (!stopping_ && wake_.WaitUntil(mutex_, due)) {
      }
    }
  }
}

}  // namespace berth::node
