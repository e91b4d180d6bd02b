// What `berth block-agent` runs: the agent of a node (blockagent/agent.h), its clients of the API,
// and its metrics and health.
//
//   /healthz  "ok", because the process runs
//   /readyz   whether the kubelet has taken the agent's driver
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "blockagent/agent.h"

namespace berth::roles {

struct BlockAgentProcessOptions {
  // If empty, `node` becomes the host's name, `drivers` Berth's own, and `driver_executable` the
  // berth-flex beside this program or where an image has it.
  blockagent::AgentOptions agent;
  std::string kubeconfig;    // empty: the pod's service account, or what kubectl would read
  std::string http_address;  // of metrics and health, as ":8080"; empty: not served
};

class BlockAgentProcess {
 public:
  // NOT_FOUND: there is no kubeconfig, or no berth-flex. UNAVAILABLE: the HTTP address is in use.
  // Other errors are those of Agent::Start. Succeeds also while the API does not answer.
  static base::StatusOr<std::unique_ptr<BlockAgentProcess>> Start(
      const BlockAgentProcessOptions& options);
  // Stops the agent. Mounts stay.
  virtual ~BlockAgentProcess() = default;
  // The name of the agent's node.
  virtual const std::string& node() const = 0;
};

}  // namespace berth::roles
