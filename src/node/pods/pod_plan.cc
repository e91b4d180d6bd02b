#include "node/pods/pod_plan.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "node/containers/container_config.h"

namespace berth::node {

namespace {

using Phase = ContainerState::Phase;

// The restart count of a container's status in the API; nullopt if it was never created.
std::optional<uint32_t> ReportedRestarts(const api::Pod& pod, bool init, const std::string& name) {
  for (const base::Json& status : base::json::Array(
           pod.json(), {"status", init ? "initContainerStatuses" : "containerStatuses"})) {
    if (base::json::String(status, {"name"}) != name) continue;
    if (base::json::String(status, {"containerID"}).empty()) return std::nullopt;
    return static_cast<uint32_t>(base::json::Int(status, {"restartCount"}));
  }
  return std::nullopt;
}

class Planner {
 public:
  Planner(const api::Pod& pod, const PodRuntime& runtime, const HealthOf& health)
      : pod_(pod), runtime_(runtime), health_(health), policy_(pod.restart_policy()) {}

  PodPlan Make() {
    ChooseSandbox();
    if (plan_.sandbox_id.empty()) {
      if (!MayStartAnew()) return std::move(plan_);
      // Containers that still run in a dead sandbox are stopped first.
      for (const ContainerState& container : runtime_.containers) {
        if (container.running()) Stop(container, "its sandbox died");
      }
      if (!plan_.stops.empty()) return std::move(plan_);
    }
    if (PlanInit()) PlanContainers();
    if (plan_.ended_phase.empty()) PlanEphemeral();
    plan_.needs_sandbox = plan_.sandbox_id.empty() && !plan_.starts.empty();
    return std::move(plan_);
  }

 private:
  void ChooseSandbox() {
    for (const SandboxState& sandbox : runtime_.sandboxes) {
      plan_.sandbox_attempt = std::max(plan_.sandbox_attempt, sandbox.attempt + 1);
      if (!sandbox.ready) continue;
      if (plan_.sandbox_id.empty()) {
        plan_.sandbox_id = sandbox.id;
      } else {
        plan_.stop_sandboxes.push_back(sandbox.id);
      }
    }
  }

  // Whether a pod whose sandbox is gone may get a new one. If not, sets the plan's ended_phase.
  bool MayStartAnew() {
    const auto containers = pod_.containers();
    // Ephemeral containers do not count, because they do not show whether the pod's own containers
    // have run.
    const bool any = std::ranges::any_of(
        runtime_.containers, [&](const ContainerState& state) { return !IsEphemeral(state.name); });
    if (policy_ == "Always" || !any) return true;
    const bool all_succeeded =
        std::all_of(containers.begin(), containers.end(), [&](const api::Container& container) {
          const ContainerState* newest = runtime_.Newest(container.name());
          return newest != nullptr && newest->exited() && newest->exit_code == 0;
        });
    if (all_succeeded) {
      plan_.ended_phase = "Succeeded";
    } else if (policy_ == "Never") {
      plan_.ended_phase = "Failed";
      const bool ran = std::any_of(containers.begin(), containers.end(), [&](const auto& c) {
        const ContainerState* newest = runtime_.Newest(c.name());
        return newest == nullptr || !newest->exited();
      });
      if (ran) plan_.ended_message = "The pod's sandbox died, and its restartPolicy is Never";
    }
    return plan_.ended_phase.empty();
  }

  bool IsEphemeral(const std::string& name) const {
    return std::ranges::any_of(
        pod_.ephemeral_containers(),
        [&name](const api::Container& container) { return container.name() == name; });
  }

  // The newest container of that name in the pod's present sandbox.
  const ContainerState* Current(const std::string& name) const {
    if (plan_.sandbox_id.empty()) return nullptr;
    for (const ContainerState& container : runtime_.containers) {
      if (container.name == name && container.sandbox_id == plan_.sandbox_id) return &container;
    }
    return nullptr;
  }

  // Plans a start of the container that continues the restart count of its earlier runs. Its
  // instances that never ran, or whose state is unknown, are removed.
  void Start(const api::Container& container, bool init) {
    ContainerStart start{.container = container, .init = init};
    const ContainerState* before = nullptr;
    for (const ContainerState& state : runtime_.containers) {
      if (state.name != container.name()) continue;
      if (state.phase == Phase::kCreated || state.phase == Phase::kUnknown) {
        plan_.remove_containers.push_back(state.id);
        start.restart_count = std::max(start.restart_count, state.restart_count);
      } else if (before == nullptr) {
        before = &state;
      }
    }
    if (before != nullptr) {
      start.restart_count = std::max(start.restart_count, before->restart_count + 1);
      start.last_exit = before->finished_at;
    }
    if (const auto reported = ReportedRestarts(pod_, init, container.name());
        reported.has_value()) {
      const bool known = before != nullptr || !plan_.remove_containers.empty();
      start.restart_count = std::max(start.restart_count, known ? *reported : *reported + 1);
    }
    plan_.starts.push_back(std::move(start));
  }

  void Stop(const ContainerState& container, std::string why) {
    plan_.stops.push_back({.id = container.id, .name = container.name, .why = std::move(why)});
  }

  // Plans the stop of a running container if its definition has changed or its probes have failed.
  // True: the container keeps running.
  bool KeepRunning(const ContainerState& state, const api::Container& container) {
    if (!state.hash.empty() && state.hash != HashContainer(container)) {
      Stop(state, fmt::format("Container {} definition changed, will be restarted", state.name));
      return false;
    }
    if (std::string why = health_(state.id).must_stop; !why.empty()) {
      Stop(state, std::move(why));
      return false;
    }
    return true;
  }

  // True if the pod's regular containers may run.
  bool PlanInit() {
    const auto containers = pod_.containers();
    const bool past_init = std::any_of(
        containers.begin(), containers.end(),
        [&](const api::Container& container) { return Current(container.name()) != nullptr; });
    for (const api::Container& init : pod_.init_containers()) {
      const bool sidecar = IsSidecar(init);
      if (past_init && !sidecar) continue;
      const ContainerState* state = Current(init.name());
      const bool running = state != nullptr && state->running();
      if (running && sidecar) {
        const bool kept = KeepRunning(*state, init);
        if (past_init || (kept && health_(state->id).started)) continue;
        return false;
      }
      if (running) return false;
      if (!sidecar && state != nullptr && state->phase == Phase::kExited) {
        if (state->exit_code == 0) continue;
        if (policy_ == "Never") {
          plan_.ended_phase = "Failed";
          return false;
        }
      }
      Start(init, true);
      if (!past_init) return false;
    }
    return true;
  }

  void PlanContainers() {
    bool all_done = true;
    bool any_failed = false;
    for (const api::Container& container : pod_.containers()) {
      const ContainerState* state = Current(container.name());
      if (state != nullptr && state->running()) {
        KeepRunning(*state, container);
        all_done = false;
        continue;
      }
      // A container that is not in the present sandbox may have ended in an earlier one.
      const ContainerState* last = state != nullptr ? state : runtime_.Newest(container.name());
      const bool exited = last != nullptr && last->phase == Phase::kExited;
      const bool done =
          exited && (policy_ == "Never" || (policy_ == "OnFailure" && last->exit_code == 0));
      if (done) {
        any_failed = any_failed || last->exit_code != 0;
        continue;
      }
      all_done = false;
      Start(container, false);
    }
    if (all_done) plan_.ended_phase = any_failed ? "Failed" : "Succeeded";
  }

  // Each ephemeral container runs once, in the pod's present sandbox. No sandbox is made for
  // ephemeral containers alone.
  void PlanEphemeral() {
    if (plan_.sandbox_id.empty() && plan_.starts.empty()) return;
    for (const api::Container& container : pod_.ephemeral_containers()) {
      std::vector<ContainerId> never_ran;
      bool ran = false;
      for (const ContainerState& state : runtime_.containers) {
        if (state.name != container.name()) continue;
        ran |= state.phase != Phase::kCreated;
        never_ran.push_back(state.id);
      }
      ran |= never_ran.empty() && WasReported(container.name());
      if (ran) continue;
      std::ranges::move(never_ran, std::back_inserter(plan_.remove_containers));
      plan_.starts.push_back({.container = container});
    }
  }

  // Whether the pod's status in the API says that the ephemeral container was created.
  bool WasReported(const std::string& name) const {
    return std::ranges::any_of(
        base::json::Array(pod_.json(), {"status", "ephemeralContainerStatuses"}),
        [&](const base::Json& status) {
          return base::json::String(status, {"name"}) == name &&
                 !base::json::String(status, {"containerID"}).empty();
        });
  }

  const api::Pod& pod_;
  const PodRuntime& runtime_;
  const HealthOf& health_;
  const std::string policy_;
  PodPlan plan_;
};

}  // namespace

bool IsSidecar(const api::Container& init_container) {
  return init_container.String({"restartPolicy"}) == "Always";
}

PodPlan MakePlan(const api::Pod& pod, const PodRuntime& runtime, const HealthOf& health) {
  return Planner(pod, runtime, health).Make();
}

PodGarbage FindGarbage(const PodRuntime& runtime) {
  PodGarbage out;
  std::set<std::string> dead_seen;
  std::set<SandboxId> used_sandboxes;
  for (const ContainerState& container : runtime.containers) {  // newest first
    if (container.exited() && !dead_seen.insert(container.name).second) {
      out.containers.push_back(container.id);
    } else {
      used_sandboxes.insert(container.sandbox_id);
    }
  }
  for (size_t i = 1; i < runtime.sandboxes.size(); ++i) {
    const SandboxState& sandbox = runtime.sandboxes[i];
    if (!sandbox.ready && !used_sandboxes.contains(sandbox.id)) out.sandboxes.push_back(sandbox.id);
  }
  return out;
}

}  // namespace berth::node
