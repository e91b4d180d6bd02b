// Computes the next steps for a pod from its spec and from what the runtime has. Pure.
//
//   no sandbox ─▶ init 1 ─▶ … ─▶ init n ─▶ containers ─▶ all ended (restartPolicy) ─▶ ended
//        ▲                                     │
//        └──────────── sandbox died ◀──────────┘   (not with restartPolicy Never)
//
// Init containers with restartPolicy Always (sidecars) count as done once they have started, and
// are kept running. Ephemeral containers run beside the others, each once; they do not influence
// how the pod ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "node/containers/cri_state.h"

namespace berth::node {

// The results of a running container's probes and hooks.
struct ContainerHealth {
  bool started = true;    // the startup probe has passed, and the postStart hook has ended
  bool ready = true;      // the readiness probe passes, and the container is not being stopped
  std::string must_stop;  // why it must be stopped and started again; else ""
};
using HealthOf = std::function<ContainerHealth(const ContainerId& container)>;

struct ContainerStart {
  api::Container container;
  bool init = false;
  uint32_t restart_count = 0;
  // When the container last exited (ns since the epoch), for the crash back-off; 0: it never did.
  int64_t last_exit = 0;
};

struct ContainerStop {
  ContainerId id;
  std::string name;
  std::string why;  // for the event
};

struct PodPlan {
  // The sandbox to use. Empty: there is none, and a new one would have the number sandbox_attempt.
  SandboxId sandbox_id;
  uint32_t sandbox_attempt = 0;
  bool needs_sandbox = false;
  std::vector<ContainerStop> stops;            // before all other steps
  std::vector<SandboxId> stop_sandboxes;       // the other ready ones
  std::vector<ContainerId> remove_containers;  // created and never started, or in an unknown state
  std::vector<ContainerStart> starts;
  // "Succeeded" or "Failed" if no container will run any more; otherwise empty.
  std::string ended_phase;
  std::string ended_message;
};

PodPlan MakePlan(const api::Pod& pod, const PodRuntime& runtime, const HealthOf& health);

// What may be removed from the runtime: exited containers except the newest of each name, and
// sandboxes that are not ready and hold no other container. The pod's newest sandbox stays.
struct PodGarbage {
  std::vector<ContainerId> containers;
  std::vector<SandboxId> sandboxes;
};
PodGarbage FindGarbage(const PodRuntime& runtime);

// Whether an init container has restartPolicy Always.
bool IsSidecar(const api::Container& init_container);

}  // namespace berth::node
