// `berth node` without --roles: a further node of a cluster.

#include <unistd.h>

#include "base/log.h"
#include "cli/connect.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/node_flags.h"
#include "cmd/berth/signals.h"
#include "kube/http/http_client.h"
#include "platform/files/disk_reserve.h"
#include "platform/limits.h"
#include "standalone/local_node.h"

namespace berth::cmd {
namespace {

using base::Status;

constexpr std::chrono::milliseconds kSyncPause{500};

// Runs the node until a signal comes. It also starts while the API does not answer; the controllers
// then wait until the informers have synced.
Status RunNode(const standalone::LocalNodeOptions& given, const std::string& kubeconfig,
               StopSignals& signals) {
  ASSIGN_OR_RETURN(const standalone::LocalNodeOptions options, standalone::CompleteOptions(given));
  ASSIGN_OR_RETURN(const kube::Config config,
                   kube::LoadKubeconfig(kube::FindKubeconfigPath(kubeconfig)));
  ASSIGN_OR_RETURN(const base::UniqueFd lock, standalone::LockDataFolder(options.data_folder));
  ASSIGN_OR_RETURN(const auto reserve,
                   platform::DiskReserve::Open({.folder = options.data_folder}));
  ASSIGN_OR_RETURN(const auto flight,
                   base::FlightRecorder::Open(cli::FlightFile(options.data_folder, "controllers"),
                                              "controllers"));
  const base::SystemClock clock;
  const auto make_client = [&](const std::string& user, const std::vector<std::string>& groups) {
    kube::Config as = config;
    if (!user.empty()) {
      as.impersonate_user = user;
      as.impersonate_groups = groups;
    }
    return kube::NewHttpClient(as);
  };
  ASSIGN_OR_RETURN(const auto api,
                   standalone::ApiAccess::New(make_client, options.node_name, clock));
  ASSIGN_OR_RETURN(const auto node,
                   standalone::LocalNode::Start(options, {*api, clock, flight.get()}));
  api->informers->Start();
  LOG_INFO("node '{}' runs; data folder: {}", options.node_name, options.data_folder);
  while (!signals.token().stop_requested() && !api->informers->WaitForSync(kSyncPause).ok()) {
  }
  if (!signals.token().stop_requested()) node->StartControllers();
  signals.Wait();
  LOG_INFO("stopping; pods keep running");
  node->Stop();
  api->informers->Stop();
  return base::OkStatus();
}

}  // namespace

int RunNodeAgent(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Run a further node of a cluster: the node agent, and the CSI driver for volumes of its "
      "host.\nWith --roles registrar,liveness: the sidecars of a CSI driver on a Kubernetes node "
      "('--roles= --help' lists the flags)",
      "berth node");
  standalone::LocalNodeOptions options;
  std::string kubeconfig;
  int verbosity = 0;
  app.add_option("--kubeconfig", kubeconfig,
                 "How to reach the API, as an administrator (default: $KUBECONFIG)");
  AddNodeFlags(app, options);
  app.add_option("--node-sockets", options.node_sockets,
                 "Folder in which the API server on this machine finds the nodes' sockets for logs "
                 "and exec: run/nodes in the data folder of that 'berth up'");
  app.add_flag("-v", verbosity, "Log more");
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  StopSignals signals;
  base::InitLogging("node", verbosity);
  if (geteuid() != 0) {
    cli::PrintError("Error: 'berth node' mounts file systems: run it as root\n");
    return 1;
  }
  if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
    LOG_WARNING("{}", base::ToString(raised));
  }
  if (const Status ended = RunNode(options, kubeconfig, signals); !ended.ok()) {
    LOG_ERROR("{}", base::ToString(ended));
    return 1;
  }
  return 0;
}

}  // namespace berth::cmd
