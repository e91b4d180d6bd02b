#include "node/cri_state.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "base/log.h"
#include "node/cri_labels.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr milliseconds kListTimeout{30000};
constexpr milliseconds kConnectFirst{100};
constexpr milliseconds kConnectMax{3000};

template <typename Map>
std::string Value(const Map& map, const char* key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string() : it->second;
}

ContainerState::Phase PhaseOf(cri::ContainerState state) {
  switch (state) {
    case cri::CONTAINER_CREATED:
      return ContainerState::Phase::kCreated;
    case cri::CONTAINER_RUNNING:
      return ContainerState::Phase::kRunning;
    case cri::CONTAINER_EXITED:
      return ContainerState::Phase::kExited;
    default:
      return ContainerState::Phase::kUnknown;
  }
}

uint32_t RestartCount(const std::string& text, uint32_t fallback) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() ? count : fallback;
}

ContainerState FromList(const cri::Container& item) {
  ContainerState out;
  out.id = item.id();
  out.sandbox_id = item.pod_sandbox_id();
  out.name = Value(item.labels(), labels::kContainerName);
  out.restart_count =
      RestartCount(Value(item.annotations(), labels::kRestartCount), item.metadata().attempt());
  out.phase = PhaseOf(item.state());
  out.created_at = item.created_at();
  out.image = item.image().user_specified_image().empty() ? item.image().image()
                                                          : item.image().user_specified_image();
  out.image_id = item.image_ref();
  out.hash = Value(item.annotations(), labels::kContainerHash);
  out.termination_path = Value(item.annotations(), labels::kTerminationMessagePath);
  out.termination_policy = Value(item.annotations(), labels::kTerminationMessagePolicy);
  return out;
}

// The host's pid of a container's first process, from the verbose information; 0 if it is not
// there.
pid_t PidOf(const cri::ContainerStatusResponse& response) {
  const auto it = response.info().find("info");
  if (it == response.info().end()) return 0;
  const auto info = base::json::Parse(it->second);
  return info.ok() ? static_cast<pid_t>(base::json::Int(*info, {"pid"})) : 0;
}

template <typename T>
void SortNewestFirst(std::vector<T>& items) {
  std::sort(items.begin(), items.end(),
            [](const T& a, const T& b) { return a.created_at > b.created_at; });
}

template <typename T>
T* FindById(std::vector<T>& items, std::string_view id) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const T& i) { return i.id == id; });
  return it == items.end() ? nullptr : &*it;
}

}  // namespace

const ContainerState* PodRuntime::Newest(std::string_view container) const {
  for (const ContainerState& state : containers) {
    if (state.name == container) return &state;
  }
  return nullptr;
}

const ContainerState* PodRuntime::Previous(std::string_view container) const {
  const ContainerState* newest = Newest(container);
  for (const ContainerState& state : containers) {
    if (state.name == container && &state != newest) return &state;
  }
  return nullptr;
}

const ContainerState* PodRuntime::ById(std::string_view id) const {
  for (const ContainerState& state : containers) {
    if (state.id == id) return &state;
  }
  return nullptr;
}

struct CriState::Listing {
  std::map<std::string, PodRuntime> pods;
};

CriState::CriState(rpc::CriClient& cri, Options options)
    : cri_(cri),
      options_(std::move(options)),
      reachable_(base::Error(StatusCode::kUnavailable,
                             "container runtime at '{}' is not reachable: not yet connected",
                             options_.endpoint)) {}

CriState::~CriState() { Stop(); }

void CriState::Start(OnChange on_change) {
  on_change_ = std::move(on_change);
  const Status watching = exits_.Start([this](const std::string&) { Hurry(); });
  if (!watching.ok()) LOG_WARNING("{}", base::ToString(watching));
  threads_.emplace_back([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "cri-list");
    Loop(stop);
  });
  threads_.emplace_back([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "cri-events");
    EventLoop(stop);
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

bool CriState::Known() const {
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

std::string CriState::PodOf(const std::string& container_id) const {
  base::MutexLock lock(mutex_);
  for (const auto& [uid, pod] : pods_) {
    if (pod.ById(container_id) != nullptr) return uid;
  }
  return "";
}

void CriState::PutSandbox(const std::string& uid, std::string_view ns, std::string_view name,
                          SandboxState sandbox) {
  base::MutexLock lock(mutex_);
  told_[sandbox.id] = ++sequence_;
  PodRuntime& pod = pods_[uid];
  pod.uid = uid;
  pod.ns = ns;
  pod.name = name;
  if (SandboxState* present = FindById(pod.sandboxes, sandbox.id); present != nullptr) {
    *present = std::move(sandbox);
  } else {
    pod.sandboxes.insert(pod.sandboxes.begin(), std::move(sandbox));
  }
}

void CriState::PutContainer(const std::string& uid, ContainerState container) {
  base::MutexLock lock(mutex_);
  told_[container.id] = ++sequence_;
  PodRuntime& pod = pods_[uid];
  pod.uid = uid;
  // Its pid and the like are asked for a little later, so as not to be in the way of the next
  // start.
  if (container.running()) HurryLocked(options_.list_after_start);
  if (ContainerState* present = FindById(pod.containers, container.id); present != nullptr) {
    *present = std::move(container);
  } else {
    pod.containers.insert(pod.containers.begin(), std::move(container));
  }
}

void CriState::RemoveSandbox(const std::string& uid, const std::string& id) {
  base::MutexLock lock(mutex_);
  told_[id] = ++sequence_;
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  PodRuntime& pod = it->second;
  for (const ContainerState& container : pod.containers) {
    if (container.sandbox_id == id) told_[container.id] = sequence_;
  }
  std::erase_if(pod.sandboxes, [&](const SandboxState& s) { return s.id == id; });
  std::erase_if(pod.containers, [&](const ContainerState& c) { return c.sandbox_id == id; });
  if (it->second.empty()) pods_.erase(it);
}

void CriState::RemoveContainer(const std::string& uid, const std::string& id) {
  base::MutexLock lock(mutex_);
  told_[id] = ++sequence_;
  const auto it = pods_.find(uid);
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
  ASSIGN_OR_RETURN(Listing listing, List(uid));
  for (const std::string& changed : Apply(uid, std::move(listing), sequence)) on_change_(changed);
  return base::OkStatus();
}

StatusOr<CriState::Listing> CriState::List(const std::string& uid) {
  cri::ListPodSandboxRequest sandboxes;
  cri::ListContainersRequest containers;
  if (!uid.empty()) {
    (*sandboxes.mutable_filter()->mutable_label_selector())[labels::kPodUid] = uid;
    (*containers.mutable_filter()->mutable_label_selector())[labels::kPodUid] = uid;
  }
  ASSIGN_OR_RETURN(const auto sandbox_list, cri_.ListPodSandbox(sandboxes, kListTimeout));
  ASSIGN_OR_RETURN(const auto container_list, cri_.ListContainers(containers, kListTimeout));

  Listing out;
  for (const cri::PodSandbox& item : sandbox_list.items()) {
    const std::string pod_uid = Value(item.labels(), labels::kPodUid);
    if (pod_uid.empty()) continue;  // not a pod's
    PodRuntime& pod = out.pods[pod_uid];
    pod.uid = pod_uid;
    pod.ns = item.metadata().namespace_();
    pod.name = item.metadata().name();
    SandboxState sandbox;
    sandbox.id = item.id();
    sandbox.attempt = item.metadata().attempt();
    sandbox.ready = item.state() == cri::SANDBOX_READY;
    sandbox.created_at = item.created_at();
    sandbox.agent = Value(item.annotations(), labels::kAgent);
    pod.sandboxes.push_back(std::move(sandbox));
  }
  for (const cri::Container& item : container_list.containers()) {
    const std::string pod_uid = Value(item.labels(), labels::kPodUid);
    if (pod_uid.empty()) continue;
    PodRuntime& pod = out.pods[pod_uid];
    pod.uid = pod_uid;
    pod.containers.push_back(FromList(item));
  }
  for (auto& [pod_uid, pod] : out.pods) {
    SortNewestFirst(pod.sandboxes);
    SortNewestFirst(pod.containers);
  }
  RETURN_IF_ERROR(FillDetails(out));
  return out;
}

// The lists say little (no addresses, no exit codes): asks for the rest of what is new or changed.
Status CriState::FillDetails(Listing& listing) {
  for (auto& [uid, pod] : listing.pods) {
    const PodRuntime known = Pod(uid);
    for (SandboxState& sandbox : pod.sandboxes) {
      const auto same = std::find_if(
          known.sandboxes.begin(), known.sandboxes.end(),
          [&](const SandboxState& s) { return s.id == sandbox.id && s.ready == sandbox.ready; });
      if (same != known.sandboxes.end()) {
        sandbox.ips = same->ips;
        continue;
      }
      cri::PodSandboxStatusRequest request;
      request.set_pod_sandbox_id(sandbox.id);
      const auto response = cri_.PodSandboxStatus(request, kListTimeout);
      if (response.status().code() == StatusCode::kNotFound) continue;  // gone meanwhile
      RETURN_IF_ERROR(response);
      const cri::PodSandboxNetworkStatus& network = response->status().network();
      if (!network.ip().empty()) sandbox.ips.push_back(network.ip());
      for (const cri::PodIP& ip : network.additional_ips()) sandbox.ips.push_back(ip.ip());
    }
    for (ContainerState& container : pod.containers) {
      const ContainerState* same = known.ById(container.id);
      if (same != nullptr && same->detailed && same->phase == container.phase) {
        container = *same;
      } else {
        RETURN_IF_ERROR(FillContainer(container));
      }
    }
  }
  return base::OkStatus();
}

Status CriState::FillContainer(ContainerState& container) {
  cri::ContainerStatusRequest request;
  request.set_container_id(container.id);
  request.set_verbose(container.running());  // for its pid
  const auto response = cri_.ContainerStatus(request, kListTimeout);
  if (response.status().code() == StatusCode::kNotFound) return base::OkStatus();  // gone meanwhile
  RETURN_IF_ERROR(response);
  const cri::ContainerStatus& status = response->status();
  container.phase = PhaseOf(status.state());
  container.started_at = status.started_at();
  container.finished_at = status.finished_at();
  container.exit_code = status.exit_code();
  container.reason = status.reason();
  container.message = status.message();
  container.log_path = status.log_path();
  if (!status.image_ref().empty()) container.image_id = status.image_ref();
  for (const cri::Mount& mount : status.mounts()) {
    if (mount.container_path() == container.termination_path) {
      container.termination_file = mount.host_path();
    }
  }
  container.detailed = true;
  if (container.running()) {
    if (const pid_t pid = PidOf(*response); pid > 0) exits_.Watch(container.id, pid);
  }
  return base::OkStatus();
}

std::vector<std::string> CriState::Apply(const std::string& only_uid, Listing listing,
                                         uint64_t sequence) {
  std::vector<std::string> changed;
  base::MutexLock lock(mutex_);
  // What the caller told after the listing began is newer than the listing.
  const auto newer = [&](const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = told_.find(id);
    return it != told_.end() && it->second > sequence;
  };
  const auto merge = [&](auto& listed, const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(listed, [&](const auto& item)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return newer(item.id); });
    for (const auto& item : known) {
      if (newer(item.id)) listed.push_back(item);
    }
    SortNewestFirst(listed);
  };

  std::vector<std::string> uids;
  if (!only_uid.empty()) {
    uids.push_back(only_uid);
  } else {
    for (const auto& [uid, pod] : pods_) uids.push_back(uid);
    for (const auto& [uid, pod] : listing.pods) {
      if (!pods_.contains(uid)) uids.push_back(uid);
    }
  }
  for (const std::string& uid : uids) {
    PodRuntime& known = pods_[uid];
    PodRuntime& listed = listing.pods[uid];
    merge(listed.sandboxes, known.sandboxes);
    merge(listed.containers, known.containers);
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
  ASSIGN_OR_RETURN(Listing listing, List(""));
  const std::vector<std::string> changed = Apply("", std::move(listing), sequence);
  // First reachable, then the changes: a pod that is told of a change must find the runtime there.
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
    LOG_INFO("container runtime at {} is reachable", base::Quote(options_.endpoint));
  } else {
    LOG_WARNING("{}", base::Message(status));
  }
  if (on_reachable_) on_reachable_();
}

void CriState::Hurry() {
  base::MutexLock lock(mutex_);
  HurryLocked(options_.first_list);
}

void CriState::HurryLocked(milliseconds first) {
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
    const milliseconds limit = streaming_ ? options_.repair_list : options_.max_list;
    const auto due = began + std::min(interval, limit);
    if (std::chrono::steady_clock::now() >= due) {
      interval = std::min(interval * 2, limit);
      return true;
    }
    wake_.WaitUntil(mutex_, due);
  }
  return false;
}

void CriState::Loop(std::stop_token stop) {
  milliseconds retry = kConnectFirst;
  milliseconds interval = options_.first_list;
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
                             "container runtime at '{}' is not reachable: {}", options_.endpoint,
                             base::Message(listed)));
    const auto due = std::chrono::steady_clock::now() + retry;
    retry = std::min(retry * 2, kConnectMax);
    base::MutexLock lock(mutex_);
    while (!stopping_ && wake_.WaitUntil(mutex_, due)) {
    }
  }
}

void CriState::EventLoop(std::stop_token stop) {
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
          std::string uid = Value(event.pod_sandbox_status().labels(), labels::kPodUid);
          if (uid.empty()) uid = PodOf(event.container_id());
          if (uid.empty() || !Refresh(uid).ok()) Hurry();
        });
    set_streaming(false);
    Hurry();  // events may have been lost
    base::MutexLock lock(mutex_);
    if (ended.code() == StatusCode::kUnimplemented) {
      // Another version may stand there after a restart, which shows as a time without it.
      while (!stopping_ && reachable_.ok()) wake_.Wait(mutex_);
    } else {
      const auto due = std::chrono::steady_clock::now() + kConnectMax;
      while (!stopping_ && wake_.WaitUntil(mutex_, due)) {
      }
    }
  }
}

}  // namespace berth::node
