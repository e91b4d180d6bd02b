// The container runtime's state of one pod, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/cri_ids.h"

namespace berth::node {

using rpc::ContainerId;
using rpc::SandboxId;

struct SandboxState {
  SandboxId id;
  uint32_t attempt = 0;
  bool ready = false;
  int64_t created_at = 0;  // ns since the epoch, as all times here
  std::vector<std::string> ips;
  std::string agent;  // the agent that made it: labels::kAgent
  // The runtime lists it as ready, and failed to tell its addresses.
  bool unread = false;
  bool operator==(const SandboxState&) const = default;
};

struct ContainerState {
  enum class Phase { kCreated, kRunning, kExited, kUnknown };
  ContainerId id;
  SandboxId sandbox_id;
  std::string name;
  uint32_t restart_count = 0;
  Phase phase = Phase::kCreated;
  int64_t created_at = 0;
  int64_t started_at = 0;
  int64_t finished_at = 0;
  int exit_code = 0;
  std::string reason;
  std::string message;   // of the runtime
  std::string image;     // as the pod names it
  std::string image_id;  // the runtime's reference
  std::string hash;      // of the container's spec, labels::kContainerHash
  std::string log_path;  // absolute
  // terminationMessagePath and terminationMessagePolicy of the container's spec.
  std::string termination_path;
  std::string termination_policy;
  std::string termination_file;  // the file on the host that is mounted at termination_path
  // False: the caller has put this state; the runtime's details are still to be read.
  bool detailed = false;
  // The runtime lists the container, and failed to tell its details, so its exit code is not known.
  bool unread = false;
  bool running() const { return phase == Phase::kRunning; }
  bool exited() const { return phase == Phase::kExited || phase == Phase::kUnknown; }
  bool operator==(const ContainerState&) const = default;
};

// The state of one pod. Both lists are sorted newest first.
struct PodRuntime {
  std::string uid;
  std::string ns;
  std::string name;
  std::vector<SandboxState> sandboxes;
  std::vector<ContainerState> containers;

  bool empty() const { return sandboxes.empty() && containers.empty(); }
  // The newest container with a name, and the one before it; nullptr: there is none.
  const ContainerState* Newest(std::string_view container) const;
  const ContainerState* Previous(std::string_view container) const;
  const ContainerState* ById(const ContainerId& id) const;
  // Names what the runtime failed to tell and no plan can do without: how an ended container ended,
  // and a sandbox's addresses. Empty: nothing.
  std::string Unread() const;
};

}  // namespace berth::node
