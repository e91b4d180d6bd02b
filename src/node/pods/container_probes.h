// Runs the startup, readiness and liveness probes of running containers.
//
//   Follow ─▶ startup (if any): passed ─▶ readiness and liveness, each by its own period
//                 └─ failed too often ─▶ must_stop        └─ liveness failed too often ─▶ must_stop
//
// Thread-safe. `on_change` is called from the probes' threads when a container's health changed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "node/containers/container_handlers.h"
#include "node/pods/pod_plan.h"

namespace berth::node {

class ContainerProbes {
 public:
  using OnChange = std::function<void(const std::string& pod_uid)>;
  // All borrowed.
  ContainerProbes(rpc::CriClient& cri, base::EventSink& events, OnChange on_change);
  ~ContainerProbes() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop();

  // Begins to probe a running container. Does nothing if the container has no probes or is probed
  // already. `pod_ip` is the host that is probed if the probe names none.
  void FollowContainer(const api::Pod& pod, const api::Container& container,
                       const ContainerId& container_id, const std::string& pod_ip);
  // Ends the probes of the pod's containers that are not in `running`, also those that wait for an
  // answer.
  void RetainContainers(const api::PodUid& pod, const std::set<ContainerId>& running);

  // The results of the probes so far. A container without probes, or that is not followed, counts
  // as started and ready.
  ContainerHealth Health(const ContainerId& container) const;

 private:
  enum class Kind { kStartup, kReadiness, kLiveness };
  struct Probe {
    base::Json spec;
    int successes = 0;
    int failures = 0;
    bool passed = false;
    bool failed = false;  // failureThreshold times in a row
  };
  struct Followed {
    base::ObjectReference pod;
    HandlerTarget target;
    std::chrono::steady_clock::time_point since;
    std::map<Kind, Probe> probes;
    std::stop_source stop{};  // of the probes that wait for an answer
  };

  base::KeyedWorkers::Outcome RunProbe(const std::string& key);
  // True if the container's health changed.
  bool NoteResult(Followed& followed, Kind kind, const base::Status& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool HasStarted(const Followed& followed);
  // The key of a probe in workers_ begins with the pod's namespace, because namespaces share the
  // workers.
  static std::string MakeKey(std::string_view ns, const ContainerId& container, Kind kind);

  rpc::CriClient& cri_;
  base::EventSink& events_;
  const OnChange on_change_;
  mutable base::Mutex mutex_;
  std::map<ContainerId, Followed> followed_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
