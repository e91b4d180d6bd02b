#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/node_flags.h"
#include "cmd/berth/signals.h"
#include "platform/limits.h"
#include "standalone/cluster.h"

namespace berth::cmd {

void AddUpCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("up", "Run the API, the controllers, the node agent and the CSI driver");
  auto options = std::make_shared<standalone::ClusterOptions>();
  auto verbosity = std::make_shared<int>(0);
  AddNodeFlags(*command, options->node);
  command->add_option("--port", options->port, "TLS port on 127.0.0.1; 0: any")
      ->capture_default_str();
  command->add_option("--csi-driver", options->csi_drivers,
                      "Socket of a further CSI driver whose volumes are to be provisioned here");
  command->add_option("--block-agent-image", options->block_agent_image,
                      "Image of the block agent and its I/O proxy, which then run on each node as "
                      "DaemonSets in kube-system; without it the operator makes no agents");
  command->add_flag("-v", *verbosity, "Log more");
  command->callback([options, verbosity, &exit_code] {
    StopSignals signals;
    base::InitLogging("berth", *verbosity);
    if (geteuid() != 0) {
      cli::PrintError("Error: 'berth up' mounts file systems: run it as root\n");
      exit_code = 1;
      return;
    }
    if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
      LOG_WARNING("{}", base::ToString(raised));
    }
    const auto cluster = standalone::Cluster::Start(*options);
    if (!cluster.ok()) {
      LOG_ERROR("{}", base::ToString(cluster.status()));
      exit_code = 1;
      return;
    }
    LOG_INFO("Berth is up; kubeconfig: {}/kubeconfig",
             std::filesystem::absolute(options->node.data_folder).lexically_normal().string());
    signals.Wait();
    LOG_INFO("stopping; pods keep running");
  });
}

}  // namespace berth::cmd
