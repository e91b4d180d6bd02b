#include "roles/block_agent_process.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http/http_client.h"
#include "roles/health.h"

namespace berth::roles {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;

// Returns berth-flex beside this program, or else in the folders where an image has it. NOT_FOUND:
// it is in none of them.
StatusOr<std::string> FindDriverExecutable() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::string& path :
       {(self.parent_path() / "berth-flex").string(), std::string("/usr/local/bin/berth-flex"),
        std::string("/usr/bin/berth-flex")}) {
    if (std::filesystem::is_regular_file(path, error)) return path;
  }
  return base::Error(
      StatusCode::kNotFound,
      "berth-flex is neither beside this program nor in /usr/local/bin and /usr/bin: name "
      "it with --driver-executable");
}

StatusOr<blockagent::AgentOptions> CompleteAgentOptions(blockagent::AgentOptions options) {
  if (options.node.empty()) {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    options.node = name;
  }
  if (options.drivers.empty()) options.drivers = {std::string(api::kBlockDriver)};
  options.data_folder = std::filesystem::absolute(options.data_folder).lexically_normal();
  if (options.driver_executable.empty()) {
    ASSIGN_OR_RETURN(options.driver_executable, FindDriverExecutable());
  }
  return options;
}

class BlockAgentProcessImpl : public BlockAgentProcess {
 public:
  Status Run(const BlockAgentProcessOptions& options) {
    ASSIGN_OR_RETURN(const blockagent::AgentOptions agent, CompleteAgentOptions(options.agent));
    node_ = agent.node;
    ASSIGN_OR_RETURN(const kube::Config config, kube::LoadConfig(options.kubeconfig));
    ASSIGN_OR_RETURN(client_, kube::NewHttpClient(config, {.user_agent = "berth-block-agent"}));
    if (agent.self_fence.has_value()) {
      // Its requests end early, so that one that got lost does not look as if the API were away.
      ASSIGN_OR_RETURN(
          probe_, kube::NewHttpClient(config, {.user_agent = "berth-block-agent",
                                               .request_timeout = agent.self_fence->after / 5}));
    }
    events_ =
        std::make_unique<kube::EventRecorder>(*client_, clock_, "berth-block-agent", agent.node);
    ASSIGN_OR_RETURN(
        agent_, blockagent::Agent::Start(agent, *client_, *events_, clock_, nullptr, probe_.get()));
    ASSIGN_OR_RETURN(endpoints_,
                     ServeHealth({.http_address = options.http_address}, metrics_,
                                 {{"/healthz", [] { return HttpEndpoint::Answer{.body = "ok"}; }},
                                  {"/readyz", [this] { return AnswerReadiness(); }}}));
    return base::OkStatus();
  }

  const std::string& node() const override { return node_; }

 private:
  HttpEndpoint::Answer AnswerReadiness() const {
    const Status health = agent_->Health();
    if (health.ok()) return {.body = "ok"};
    return {.code = 500, .body = base::ToString(health) + "\n"};
  }

  const base::SystemClock clock_;
  std::string node_;

  // The parts, in the order in which they are made. They are destroyed in reverse order.
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::Client> probe_;  // null: the node never fences itself
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<blockagent::Agent> agent_;
  base::Metrics metrics_;
  std::vector<std::unique_ptr<HttpEndpoint>> endpoints_;
};

}  // namespace

StatusOr<std::unique_ptr<BlockAgentProcess>> BlockAgentProcess::Start(
    const BlockAgentProcessOptions& options) {
  auto process = std::make_unique<BlockAgentProcessImpl>();
  RETURN_IF_ERROR(process->Run(options));
  return std::unique_ptr<BlockAgentProcess>(std::move(process));
}

}  // namespace berth::roles
