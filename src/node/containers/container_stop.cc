#include "node/containers/container_stop.h"

#include <algorithm>

#include "base/log.h"
#include "base/pause.h"

namespace berth::node {

namespace {

using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace json = base::json;

// The time after the grace period in which the runtime must kill the container and clean up.
constexpr seconds kRuntimeTime{120};

}  // namespace

std::optional<api::Container> FindContainer(const api::Pod& pod, std::string_view name) {
  for (const auto& list : {pod.containers(), pod.init_containers(), pod.ephemeral_containers()}) {
    for (const api::Container& container : list) {
      if (container.name() == name) return container;
    }
  }
  return std::nullopt;
}

Status RunHook(rpc::CriClient& cri, const HandlerTarget& target, const Json& hook,
               milliseconds timeout, std::stop_token stop) {
  if (const Json* sleep = json::Find(hook, {"sleep"}); sleep != nullptr) {
    const milliseconds wanted =
        seconds(std::clamp<int64_t>(json::Int(*sleep, {"seconds"}), 0, 86400));
    if (!base::SleepFor(stop, std::min(wanted, timeout))) {
      return base::Error(StatusCode::kCancelled, "the node agent stops");
    }
    return wanted <= timeout ? base::OkStatus()
                             : base::Error(StatusCode::kDeadlineExceeded, "sleep of {} s cut off",
                                           wanted.count() / 1000);
  }
  return RunHandler(cri, target, hook, timeout, stop);
}

ContainerStopper::ContainerStopper(rpc::CriClient& cri, CriState& runtime, PodTasks& tasks,
                                   base::EventSink& events, OnStopped on_stopped)
    : cri_(cri),
      runtime_(runtime),
      tasks_(tasks),
      events_(events),
      on_stopped_(std::move(on_stopped)) {}

bool ContainerStopper::IsStopping(const ContainerId& container) const {
  base::MutexLock lock(mutex_);
  return running_.contains(container);
}

void ContainerStopper::StopContainer(const api::Pod& pod, const ContainerState& container,
                                     int64_t grace_seconds, const std::string& why) {
  const auto grace = std::clamp<int64_t>(grace_seconds, kMinGraceSeconds, INT32_MAX);
  bool first = false;
  {
    base::MutexLock lock(mutex_);
    const auto [it, added] = running_.emplace(container.id, Running{.grace = grace});
    if (!added && it->second.grace <= grace) return;
    first = added;
    it->second.grace = grace;
    ++it->second.tasks;
  }
  if (first) events_.Record(pod.reference(), EventType::kNormal, "Killing", why);
  const std::string key = fmt::format("stop/{}/{}", container.id.text(), grace);
  const bool started =
      tasks_.RunTask(key, pod.ns(), [this, pod, container, grace, first](std::stop_token stop) {
        const Status stopped = RunStop(pod, container, grace, first, stop);
        {
          base::MutexLock lock(mutex_);
          const auto it = running_.find(container.id);
          if (it != running_.end() && --it->second.tasks == 0) running_.erase(it);
        }
        on_stopped_(pod.uid(), stopped);
      });
  if (started) return;
  base::MutexLock lock(mutex_);
  const auto it = running_.find(container.id);
  if (it != running_.end() && --it->second.tasks == 0) running_.erase(it);
}

void ContainerStopper::RunPreStopHook(const api::Pod& pod, const ContainerState& container,
                                      seconds grace, std::stop_token stop) {
  const auto spec = FindContainer(pod, container.name);
  const Json* hook =
      spec.has_value() ? json::Find(spec->json(), {"lifecycle", "preStop"}) : nullptr;
  if (hook == nullptr || !hook->is_object()) return;
  const PodRuntime runtime = runtime_.Pod(pod.uid());
  std::string ip = pod.String({"status", "podIP"});
  if (!runtime.sandboxes.empty() && !runtime.sandboxes[0].ips.empty())
    ip = runtime.sandboxes[0].ips[0];
  const Status done = RunHook(
      cri_, {.container_id = container.id, .container = *spec, .pod_ip = ip}, *hook, grace, stop);
  if (!done.ok()) {
    events_.Record(
        pod.reference(), EventType::kWarning, "FailedPreStopHook",
        fmt::format("PreStopHook of container {} failed: {}", container.name, base::Message(done)));
  }
}

Status ContainerStopper::RunStop(const api::Pod& pod, const ContainerState& container,
                                 int64_t grace_seconds, bool with_hook, std::stop_token stop) {
  const auto began = std::chrono::steady_clock::now();
  const auto grace = seconds(grace_seconds);
  if (with_hook && container.running()) RunPreStopHook(pod, container, grace, stop);
  if (stop.stop_requested()) return base::OkStatus();
  const auto used = std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - began);
  const seconds left = std::max(grace - used, seconds(kMinGraceSeconds));
  rpc::cri::StopContainerRequest request;
  request.set_container_id(container.id.text());
  request.set_timeout(left.count());
  const auto stopped = cri_.StopContainer(request, left + kRuntimeTime);
  Status result =
      stopped.status().code() == StatusCode::kNotFound ? base::OkStatus() : base::AsStatus(stopped);
  if (result.ok()) {
    LOG_INFO("container {} of pod {} is stopped", base::Quote(container.name),
             base::Quote(pod.key()));
  }
  if (const Status read = runtime_.Refresh(pod.uid()); result.ok()) result = read;
  if (!result.ok() && result.code() != StatusCode::kCancelled) {
    LOG_WARNING("stop container {} of pod {}: {}", base::Quote(container.name),
                base::Quote(pod.key()), base::ToString(result));
    events_.Record(
        pod.reference(), EventType::kWarning, "FailedKillPod",
        fmt::format("container {} does not end: {}", container.name, base::ToString(result)));
  }
  return result;
}

}  // namespace berth::node
