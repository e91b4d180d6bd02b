// `berth block-agent`: the agent of a node (blockagent/agent.h).

#include <unistd.h>

#include <filesystem>

#include "base/ipc/block_call.h"
#include "base/log.h"
#include "base/metrics.h"
#include "blockagent/agent.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/duration_option.h"
#include "cmd/berth/signals.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/http/http_client.h"
#include "platform/file_systems/file_system.h"
#include "platform/limits.h"
#include "roles/health.h"

namespace berth::cmd {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct BlockAgentFlags {
  blockagent::AgentOptions agent;
  std::string kubeconfig;
  std::string http_address;
  blockagent::SelfFenceTimes self_fence;
  bool no_self_fence = false;
  int verbosity = 0;
};

StatusOr<kube::Config> LoadAgentApiConfig(const std::string& kubeconfig) {
  if (!kubeconfig.empty()) return kube::LoadKubeconfig(kubeconfig);
  auto in_pod = kube::LoadInClusterConfig();
  if (in_pod.ok()) return in_pod;
  return kube::LoadKubeconfig(kube::FindKubeconfigPath());
}

// Returns `given`, or else berth-flex beside this program, or else in the folders where an image
// has it. NOT_FOUND: it is in none of them.
StatusOr<std::string> FindDriverExecutable(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::string& path :
       {(self.parent_path() / "berth-flex").string(), std::string("/usr/local/bin/berth-flex"),
        std::string("/usr/bin/berth-flex")}) {
    if (std::filesystem::is_regular_file(path, error)) return path;
  }
  return Error(StatusCode::kNotFound,
               "berth-flex is neither beside this program nor in /usr/local/bin and /usr/bin: name "
               "it with --driver-executable");
}

Status RunBlockAgent(BlockAgentFlags flags, StopSignals& signals) {
  if (geteuid() != 0) {
    return Error(StatusCode::kPermissionDenied,
                 "'berth block-agent' maps devices and mounts file systems: run it as root");
  }
  if (flags.agent.node.empty()) {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    flags.agent.node = name;
  }
  if (flags.agent.drivers.empty()) flags.agent.drivers = {std::string(api::kBlockDriver)};
  flags.agent.data_folder = std::filesystem::absolute(flags.agent.data_folder).lexically_normal();
  ASSIGN_OR_RETURN(flags.agent.driver_executable,
                   FindDriverExecutable(flags.agent.driver_executable));
  ASSIGN_OR_RETURN(const kube::Config config, LoadAgentApiConfig(flags.kubeconfig));
  ASSIGN_OR_RETURN(const auto client,
                   kube::NewHttpClient(config, {.user_agent = "berth-block-agent"}));
  // Its requests end early, so that one that got lost does not look as if the API were away.
  std::unique_ptr<kube::Client> probe;
  if (flags.no_self_fence) {
    flags.agent.self_fence.reset();
  } else {
    flags.agent.self_fence = flags.self_fence;
    ASSIGN_OR_RETURN(probe,
                     kube::NewHttpClient(config, {.user_agent = "berth-block-agent",
                                                  .request_timeout = flags.self_fence.after / 5}));
  }
  const base::SystemClock clock;
  kube::EventRecorder events(*client, clock, "berth-block-agent", flags.agent.node);
  ASSIGN_OR_RETURN(const auto agent, blockagent::Agent::Start(flags.agent, *client, events, clock,
                                                              nullptr, probe.get()));
  base::Metrics metrics;
  ASSIGN_OR_RETURN(
      const auto endpoints,
      roles::ServeHealth(
          {.http_address = flags.http_address}, metrics,
          {{"/healthz", []() -> roles::HttpEndpoint::Answer { return {.body = "ok"}; }},
           {"/readyz", [&agent]() -> roles::HttpEndpoint::Answer {
              const Status health = agent->Health();
              if (health.ok()) return {.body = "ok"};
              return {.code = 500, .body = base::ToString(health) + "\n"};
            }}}));
  LOG_INFO("the block agent of node '{}' runs", flags.agent.node);
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
  flags->agent.data_folder = "/var/lib/berth";
  flags->agent.socket = base::ipc::block::kSocket;
  command->add_option("--kubeconfig", flags->kubeconfig,
                      "How to reach the API (default: the pod's service account, $KUBECONFIG)");
  command->add_option("--node-name", flags->agent.node, "Name of the Node (default: the host's)");
  command
      ->add_option("--data", flags->agent.data_folder,
                   "Data folder; the records are in its folder block-agent")
      ->capture_default_str();
  command
      ->add_option("--socket", flags->agent.socket,
                   "Socket at which the driver berth-flex asks this agent")
      ->capture_default_str();
  command
      ->add_option(
          "--driver", flags->agent.drivers,
          "Name vendor/driver under which the driver is installed; may be given several times "
          "(default: berth.dev/block)")
      ->allow_extra_args(false);
  command->add_option("--driver-executable", flags->agent.driver_executable,
                      "berth-flex (default: beside this program)");
  command->add_option(
      "--volume-plugin-dir", flags->agent.plugin_folder,
      "Folder in which the kubelet looks for Flexvolume drivers (default: the agent finds "
      "it)");
  command->add_option(
      "--host-root", flags->agent.host_root,
      "In a container: where the node's file system is mounted; the agent finds and "
      "writes the folder of drivers below it");
  command->add_option("--kubelet-dir", flags->agent.kubelet_folder, "The kubelet's folder")
      ->capture_default_str();
  command->add_option("--io-proxy-socket", flags->agent.proxy_socket,
                      "Socket at which 'berth io-proxy' of this node listens");
  AddDuration(
      *command, "--node-silence", flags->agent.node_silence,
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
      "--http-endpoint", flags->http_address,
      "Address at which metrics and health are served, as ':8080' (default: nowhere)");
  command->add_flag("-v", flags->verbosity, "Log more");
  command->callback([flags, &exit_code] {
    platform::PrepareProbes();
    StopSignals signals;
    base::InitLogging("block-agent", flags->verbosity);
    if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
      LOG_WARNING("{}", base::ToString(raised));
    }
    if (const Status ended = RunBlockAgent(*flags, signals); !ended.ok()) {
      LOG_ERROR("{}", base::ToString(ended));
      exit_code = 1;
    }
  });
}

}  // namespace berth::cmd
