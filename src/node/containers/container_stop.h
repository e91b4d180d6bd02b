// Stops containers in the background: preStop hook, stop signal, grace period, SIGKILL.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "node/containers/container_handlers.h"
#include "node/containers/cri_state.h"
#include "node/containers/pod_tasks.h"
#include "rpc/cri_client.h"

namespace berth::node {

// The shortest grace period that a container gets, as in the kubelet.
inline constexpr int64_t kMinGraceSeconds = 2;

class ContainerStopper {
 public:
  // Called from a task's thread when a stop has ended, with its outcome. The runtime's state was
  // read again before.
  using OnStopped = std::function<void(const std::string& pod_uid, const base::Status& status)>;
  // All borrowed.
  ContainerStopper(rpc::CriClient& cri, CriState& runtime, PodTasks& tasks, base::EventSink& events,
                   OnStopped on_stopped);

  // Starts to stop the container, with the event "Killing" and the message `why`. If the container
  // does not end, as one whose process waits for a device that does not answer, the pod gets the
  // event "FailedKillPod". If it is being
  // stopped already, only a shorter grace period has an effect: it is passed to the runtime. The
  // grace period is at least kMinGraceSeconds.
  void StopContainer(const api::Pod& pod, const ContainerState& container, int64_t grace_seconds,
                     const std::string& why);
  bool IsStopping(const ContainerId& container) const;

 private:
  base::Status RunStop(const api::Pod& pod, const ContainerState& container, int64_t grace_seconds,
                       bool with_hook, std::stop_token stop);
  void RunPreStopHook(const api::Pod& pod, const ContainerState& container,
                      std::chrono::seconds grace, std::stop_token stop);

  rpc::CriClient& cri_;
  CriState& runtime_;
  PodTasks& tasks_;
  base::EventSink& events_;
  const OnStopped on_stopped_;
  mutable base::Mutex mutex_;
  struct Running {
    int64_t grace = 0;
    int tasks = 0;
  };
  std::map<ContainerId, Running> running_ ABSL_GUARDED_BY(mutex_);
};

// The container of the pod (also an init or ephemeral container) with that name; nullopt: there is
// none.
std::optional<api::Container> FindContainer(const api::Pod& pod, std::string_view name);

// Runs a lifecycle hook: a handler of container_handlers.h, or sleep{seconds}. Takes at most
// `timeout`; a longer sleep is DEADLINE_EXCEEDED. CANCELLED: `stop` was requested.
base::Status RunHook(rpc::CriClient& cri, const HandlerTarget& target, const base::Json& hook,
                     std::chrono::milliseconds timeout, std::stop_token stop);

}  // namespace berth::node
