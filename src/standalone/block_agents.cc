#include "standalone/block_agents.h"

#include "apiserver/access/authorization.h"
#include "base/json.h"
#include "cli/connect.h"
#include "platform/files/durable_file.h"
#include "standalone/data_folder.h"

namespace berth::standalone {
namespace {

using base::Status;

// The path at which deploy/block-agent/agent.yaml mounts the machine's file system.
constexpr char kHost[] = "/host";

std::string KubeconfigPath(const std::string& data_folder) {
  return data_folder + "/block-agent.kubeconfig";
}

std::string RenderKubeconfig(const BlockAgentPods& pods) {
  const std::string server = fmt::format("unix://{}{}", kHost, cli::ApiSocket(pods.data_folder));
  const std::string agent = fmt::format("{}{}", apiserver::kBlockAgentPrefix, pods.node_name);
  base::Json config = {{"apiVersion", "v1"}, {"kind", "Config"}, {"current-context", "berth"}};
  config["clusters"][0] = {{"name", "berth"}, {"cluster", {{"server", server}}}};
  config["users"][0] = {{"name", "agent"}, {"user", {{"as", agent}}}};
  config["users"][0]["user"]["as-groups"][0] = std::string(apiserver::kBlockAgents);
  config["contexts"][0] = {{"name", "berth"},
                           {"context", {{"cluster", "berth"}, {"user", "agent"}}}};
  return base::json::Dump(config);
}

}  // namespace

controllers::blockoperator::AgentOptions MakeBlockAgentOptions(const BlockAgentPods& pods) {
  return {.install = false,  // the cluster's start has installed the kinds
          .deploy = !pods.image.empty(),
          .ns = "kube-system",
          .image = pods.image,
          .kubelet_folder = KubeletFolder(pods.data_folder),
          // Pods get no service account token here, and this API listens at an address of the
          // machine, so the agents use a kubeconfig.
          .service_account = "default",
          .agent_flags = {"--kubeconfig=" + (kHost + KubeconfigPath(pods.data_folder)),
                          "--volume-plugin-dir=" + pods.volume_plugin_folder}};
}

Status WriteBlockAgentKubeconfig(const BlockAgentPods& pods) {
  const std::string text = RenderKubeconfig(pods);
  const std::string path = KubeconfigPath(pods.data_folder);
  const auto present = platform::ReadFile(path);
  if (present.ok() && *present == text) return base::OkStatus();
  return platform::WriteDurably<"standalone.block_agent_kubeconfig">(path, text);
}

}  // namespace berth::standalone
