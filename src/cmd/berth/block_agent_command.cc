// `berth block-agent`: the agent of a node (roles/block_agent_process.h).

#include <unistd.h>

#include <optional>

#include "base/ipc/block_call.h"
#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/duration_option.h"
#include "cmd/berth/signals.h"
#include "platform/file_systems/file_system.h"
#include "platform/limits.h"
#include "roles/block_agent_process.h"

namespace berth::cmd {
namespace {

struct BlockAgentFlags {
  roles::BlockAgentProcessOptions process;
  blockagent::SelfFenceTimes self_fence;
  bool no_self_fence = false;
  int verbosity = 0;
};

base::Status RunBlockAgent(const BlockAgentFlags& flags, StopSignals& signals) {
  if (geteuid() != 0) {
    return base::Error(base::StatusCode::kPermissionDenied,
                       "'berth block-agent' maps devices and mounts file systems: run it as root");
  }
  roles::BlockAgentProcessOptions options = flags.process;
  options.agent.self_fence = flags.no_self_fence ? std::nullopt : std::optional(flags.self_fence);
  ASSIGN_OR_RETURN(const auto process, roles::BlockAgentProcess::Start(options));
  LOG_INFO("the block agent of node '{}' runs", process->node());
  signals.Wait();
  LOG_INFO("stopping; volumes stay mounted");
  return base::OkStatus();
}

}  // namespace

void AddBlockAgentCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "block-agent",
      "Attach volumes of storage clusters on this node, behind the Flexvolume driver that it "
      "installs (needs root)");
  auto flags = std::make_shared<BlockAgentFlags>();
  flags->process.agent.data_folder = "/var/lib/berth";
  flags->process.agent.socket = base::ipc::block::kSocket;
  command->add_option("--kubeconfig", flags->process.kubeconfig,
                      "How to reach the API (default: the pod's service account, $KUBECONFIG)");
  command->add_option("--node-name", flags->process.agent.node,
                      "Name of the Node (default: the host's)");
  command
      ->add_option("--data", flags->process.agent.data_folder,
                   "Data folder; the records are in its folder block-agent")
      ->capture_default_str();
  command
      ->add_option("--socket", flags->process.agent.socket,
                   "Socket at which the driver berth-flex asks this agent")
      ->capture_default_str();
  command
      ->add_option(
          "--driver", flags->process.agent.drivers,
          "Name vendor/driver under which the driver is installed; may be given several times "
          "(default: berth.dev/block)")
      ->allow_extra_args(false);
  command->add_option("--driver-executable", flags->process.agent.driver_executable,
                      "berth-flex (default: beside this program)");
  command->add_option(
      "--volume-plugin-dir", flags->process.agent.plugin_folder,
      "Folder in which the kubelet looks for Flexvolume drivers (default: the agent finds "
      "it)");
  command->add_option(
      "--host-root", flags->process.agent.host_root,
      "In a container: where the node's file system is mounted; the agent finds and "
      "writes the folder of drivers below it");
  command->add_option("--kubelet-dir", flags->process.agent.kubelet_folder, "The kubelet's folder")
      ->capture_default_str();
  command->add_option("--io-proxy-socket", flags->process.agent.proxy_socket,
                      "Socket at which 'berth io-proxy' of this node listens");
  AddDuration(
      *command, "--node-silence", flags->process.agent.node_silence,
      "How long a deleted Node's Lease must stay unchanged before the node counts as silent; "
      "longer if the Lease says so (default: 45s)");
  AddDuration(*command, "--self-fence-after", flags->self_fence.after,
              "After how long without an answer of the API and of the storage's lock this node "
              "takes a volume off that the storage could move (default: 15s)");
  AddDuration(*command, "--node-monitor-grace-period", flags->self_fence.grace_period,
              "The flag of that name of kube-controller-manager: after that long without a sign of "
              "life of a node its fences may be broken (default: 40s)");
  command->add_flag("--no-self-fence", flags->no_self_fence,
                    "Keep the volumes however long this node is cut off");
  command->add_option(
      "--http-endpoint", flags->process.http_address,
      "Address at which metrics and health are served, as ':8080' (default: nowhere)");
  command->add_flag("-v", flags->verbosity, "Log more");
  command->callback([flags, &exit_code] {
    platform::PrepareProbes();
    StopSignals signals;
    base::InitLogging("block-agent", flags->verbosity);
    if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
      LOG_WARNING("{}", base::ToString(raised));
    }
    if (const base::Status ended = RunBlockAgent(*flags, signals); !ended.ok()) {
      LOG_ERROR("{}", base::ToString(ended));
      exit_code = 1;
    }
  });
}

}  // namespace berth::cmd
