// What is to be done next for a pod, from what it should be and what the runtime has. Pure.
//
//   no sandbox ─▶ init 1 ─▶ … ─▶ init n ─▶ containers ─▶ all ended (restartPolicy) ─▶ ended
//        ▲                                     │
//        └──────────── sandbox died ◀──────────┘   (not with restartPolicy Never)
//
// Init containers with restartPolicy Always (sidecars) count as done once started, and are kept
// running. Ephemeral containers run beside all that, each once, and count for nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "node/containers/cri_state.h"

namespace berth::node {

// The results of a running container's probes and hooks.
struct ContainerHealth {
  bool started = true;    // the startup probe has passed, the postStart hook has ended
  bool ready = true;      // and the readiness probe passes
  std::string must_stop;  // why it must be stopped and started again, else empty
};
using HealthOf = std::function<ContainerHealth(const ContainerId& container)>;

struct ContainerStart {
  api::Container container;
  bool init = false;
  uint32_t restart_count = 0;
  // The exit before this start (ns since the epoch), for the crash back-off; 0: there was none.
  int64_t last_exit = 0;
};

struct ContainerStop {
  ContainerId id;
  std::string name;
  std::string why;  // for the event
};

struct PodPlan {
  // The sandbox to use; empty: a new one, of this attempt.
  SandboxId sandbox_id;
  uint32_t sandbox_attempt = 0;
  bool needs_sandbox = false;
  std::vector<ContainerStop> stops;            // first of all
  std::vector<SandboxId> stop_sandboxes;       // dead ones that still run something, duplicates
  std::vector<ContainerId> remove_containers;  // created and never started, or in an unknown state
  std::vector<ContainerStart> starts;
  // "Succeeded" or "Failed": nothing will run any more.
  std::string ended_phase;
  std::string ended_message;
};

PodPlan MakePlan(const api::Pod& pod, const PodRuntime& runtime, const HealthOf& health);

// Exited containers beyond the newest of each name, and sandboxes that hold nothing of use; the
// pod's newest sandbox and ready ones stay.
struct PodGarbage {
  std::vector<ContainerId> containers;
  std::vector<SandboxId> sandboxes;
};
PodGarbage FindGarbage(const PodRuntime& runtime);

// A container with restartPolicy Always among the init containers.
bool IsSidecar(const api::Container& init_container);

}  // namespace berth::node
