#include "node/containers/cri_listing.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "base/log.h"
#include "node/containers/cri_labels.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::Status;
using base::StatusCode;
using base::StatusOr;

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

uint32_t ParseRestartCount(const std::string& text, uint32_t fallback) {
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() ? count : fallback;
}

ContainerState FromList(const cri::Container& item) {
  ContainerState out;
  out.id = ContainerId(item.id());
  out.sandbox_id = SandboxId(item.pod_sandbox_id());
  out.name = ValueOf(item.labels(), labels::kContainerName);
  out.restart_count = ParseRestartCount(ValueOf(item.annotations(), labels::kRestartCount),
                                        item.metadata().attempt());
  out.phase = PhaseOf(item.state());
  out.created_at = item.created_at();
  out.image = item.image().user_specified_image().empty() ? item.image().image()
                                                          : item.image().user_specified_image();
  out.image_id = item.image_ref();
  out.hash = ValueOf(item.annotations(), labels::kContainerHash);
  out.termination_path = ValueOf(item.annotations(), labels::kTerminationMessagePath);
  out.termination_policy = ValueOf(item.annotations(), labels::kTerminationMessagePolicy);
  return out;
}

// The pid on the host of a container's first process, from the verbose information; 0: it is not
// given.
pid_t PidOf(const cri::ContainerStatusResponse& response) {
  const auto it = response.info().find("info");
  if (it == response.info().end()) return 0;
  const auto info = base::json::Parse(it->second);
  return info.ok() ? static_cast<pid_t>(base::json::Int(*info, {"pid"})) : 0;
}

// True for a container that an earlier agent created, and that ended without having run: the agent
// ended during the start, so the runtime gave the start up. This is no failure of the container,
// and restartPolicy must not count it. If the container cannot be started, it fails again under
// this agent, and that counts.
bool WasStartCutOff(const cri::ContainerStatus& status, int64_t agent_started_ns) {
  return status.state() == cri::CONTAINER_EXITED && status.started_at() == 0 &&
         status.created_at() < agent_started_ns;
}

// Makes the state of a container of which only the list's item is known. What was known before
// stays.
void MarkUnread(const ContainerState* before, const Status& why, ContainerState& container) {
  const ContainerState::Phase phase = container.phase;
  if (before != nullptr) container = *before;
  container.phase = phase;
  container.detailed = false;
  container.unread = true;
  if (!container.exited()) return;
  // As in the kubelet, an end that cannot be read is no success.
  container.exit_code = 137;
  container.reason = "ContainerStatusUnknown";
  container.message = base::Message(why);
}

// A failure that is seen again at each list is a warning only once.
void LogUnread(const PodRuntime& pod, std::string_view what, const std::string& which,
               const Status& why, bool again) {
  const std::string text =
      fmt::format("read {} {} of pod {} from the container runtime: {}", what, base::Quote(which),
                  base::Quote(pod.uid), base::ToString(why));
  if (again) {
    LOG_DEBUG("{}", text);
  } else {
    LOG_WARNING("{}", text);
  }
}

template <typename T>
void Sort(std::vector<T>& items) {
  std::sort(items.begin(), items.end(),
            [](const T& a, const T& b) { return a.created_at > b.created_at; });
}

}  // namespace

void SortNewestFirst(PodRuntime& pod) {
  Sort(pod.sandboxes);
  Sort(pod.containers);
}

std::vector<std::string> SandboxIps(const cri::PodSandboxStatus& status) {
  std::vector<std::string> out;
  if (!status.network().ip().empty()) out.push_back(status.network().ip());
  for (const cri::PodIP& ip : status.network().additional_ips()) out.push_back(ip.ip());
  return out;
}

StatusOr<PodListing> CriLister::ListPods(const std::string& uid) const {
  cri::ListPodSandboxRequest sandboxes;
  cri::ListContainersRequest containers;
  if (!uid.empty()) {
    (*sandboxes.mutable_filter()->mutable_label_selector())[labels::kPodUid] = uid;
    (*containers.mutable_filter()->mutable_label_selector())[labels::kPodUid] = uid;
  }
  ASSIGN_OR_RETURN(const auto sandbox_list, cri_.ListPodSandbox(sandboxes, kListTimeout));
  ASSIGN_OR_RETURN(const auto container_list, cri_.ListContainers(containers, kListTimeout));

  PodListing out;
  for (const cri::PodSandbox& item : sandbox_list.items()) {
    const std::string pod_uid = ValueOf(item.labels(), labels::kPodUid);
    if (pod_uid.empty()) continue;  // not a pod's
    PodRuntime& pod = out[pod_uid];
    pod.uid = pod_uid;
    pod.ns = item.metadata().namespace_();
    pod.name = item.metadata().name();
    SandboxState sandbox;
    sandbox.id = SandboxId(item.id());
    sandbox.attempt = item.metadata().attempt();
    sandbox.ready = item.state() == cri::SANDBOX_READY;
    sandbox.created_at = item.created_at();
    sandbox.agent = ValueOf(item.annotations(), labels::kAgent);
    pod.sandboxes.push_back(std::move(sandbox));
  }
  for (const cri::Container& item : container_list.containers()) {
    const std::string pod_uid = ValueOf(item.labels(), labels::kPodUid);
    if (pod_uid.empty()) continue;
    PodRuntime& pod = out[pod_uid];
    pod.uid = pod_uid;
    pod.containers.push_back(FromList(item));
  }
  for (auto& [pod_uid, pod] : out) {
    SortNewestFirst(pod);
    RETURN_IF_ERROR(FillDetails(pod));
  }
  return out;
}

// Reads the details that lists do not have (addresses, exit codes) for sandboxes and containers
// that are new or changed.
Status CriLister::FillDetails(PodRuntime& pod) const {
  const PodRuntime known = known_(pod.uid);
  for (SandboxState& sandbox : pod.sandboxes) {
    const auto same = std::find_if(
        known.sandboxes.begin(), known.sandboxes.end(),
        [&](const SandboxState& s) { return s.id == sandbox.id && s.ready == sandbox.ready; });
    if (same != known.sandboxes.end() && !same->unread) {
      sandbox.ips = same->ips;
      continue;
    }
    const Status read = FillSandbox(sandbox);
    if (read.ok()) continue;
    if (!IsOfObject(read)) return read;
    sandbox.unread = sandbox.ready;
    LogUnread(pod, "sandbox", sandbox.id.text(), read, same != known.sandboxes.end());
  }
  for (ContainerState& container : pod.containers) {
    const ContainerState* same = known.ById(container.id);
    if (same != nullptr && same->detailed && same->phase == container.phase) {
      container = *same;
      continue;
    }
    const Status read = FillContainer(container);
    if (read.ok()) continue;
    if (!IsOfObject(read)) return read;
    MarkUnread(same, read, container);
    LogUnread(pod, "container", container.name, read, same != nullptr && same->unread);
  }
  return base::OkStatus();
}

Status CriLister::FillSandbox(SandboxState& sandbox) const {
  cri::PodSandboxStatusRequest request;
  request.set_pod_sandbox_id(sandbox.id.text());
  const auto response = cri_.PodSandboxStatus(request, kListTimeout);
  if (response.status().code() == StatusCode::kNotFound) return base::OkStatus();  // gone meanwhile
  RETURN_IF_ERROR(response);
  sandbox.ips = SandboxIps(response->status());
  return base::OkStatus();
}

Status CriLister::FillContainer(ContainerState& container) const {
  cri::ContainerStatusRequest request;
  request.set_container_id(container.id.text());
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
  if (WasStartCutOff(status, started_ns_)) container.phase = ContainerState::Phase::kCreated;
  return container.running() ? WatchExit(container.id) : base::OkStatus();
}

// Only the verbose status has the pid. It also has the container's environment, twice, and may be
// longer than the runtime may answer; lists find the exit then.
Status CriLister::WatchExit(const ContainerId& container) const {
  cri::ContainerStatusRequest request;
  request.set_container_id(container.text());
  request.set_verbose(true);
  const auto response = cri_.ContainerStatus(request, kListTimeout);
  if (!response.ok()) {
    if (!IsOfObject(response.status())) return response.status();
    LOG_DEBUG("read the pid of container {}: {}", base::Quote(container.text()),
              base::ToString(response.status()));
    return base::OkStatus();
  }
  if (const pid_t pid = PidOf(*response); pid > 0) exits_.WatchProcess(container.text(), pid);
  return base::OkStatus();
}

bool CriLister::IsOfObject(const Status& failure) const {
  if (failure.code() == StatusCode::kCancelled) return false;  // this process stops
  return failure.code() != StatusCode::kUnavailable ||
         cri_.Version(cri::VersionRequest(), kListTimeout).ok();
}

}  // namespace berth::node
