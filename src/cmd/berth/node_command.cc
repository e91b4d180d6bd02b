// `berth node` without --roles: a further node of a cluster.

#include <unistd.h>

#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/node_flags.h"
#include "cmd/berth/signals.h"
#include "platform/limits.h"
#include "standalone/further_node.h"

namespace berth::cmd {

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
  if (const base::Status ended = standalone::RunFurtherNode(options, kubeconfig, signals.token());
      !ended.ok()) {
    LOG_ERROR("{}", base::ToString(ended));
    return 1;
  }
  return 0;
}

}  // namespace berth::cmd
