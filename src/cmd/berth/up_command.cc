#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "cmd/berth/standalone.h"
#include "platform/limits.h"

namespace berth::cmd {

void AddUpCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("up", "Run the API, the controllers, the node agent and the CSI driver");
  auto options = std::make_shared<UpOptions>();
  auto verbosity = std::make_shared<int>(0);
  command->add_option("--data", options->data_folder, "Data folder")->capture_default_str();
  command->add_option("--node-name", options->node_name, "Name of the node (default: the host's)");
  command->add_option("--port", options->port, "TLS port on 127.0.0.1; 0: any")
      ->capture_default_str();
  command
      ->add_option("--container-runtime-endpoint", options->runtime_endpoint,
                   "CRI socket of the runtime")
      ->capture_default_str();
  command->add_option("--pool", options->pool_folder,
                      "Folder of the volumes' images (default: DATA/pool)");
  command
      ->add_option("--overcommit", options->overcommit,
                   "How much of the pool's size thin volumes may promise, as a factor")
      ->capture_default_str();
  command->add_option("--csi-driver", options->csi_drivers,
                      "Socket of a further CSI driver whose volumes are to be provisioned here");
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
    options->data_folder = std::filesystem::absolute(options->data_folder).lexically_normal();
    const auto standalone = Standalone::Start(*options);
    if (!standalone.ok()) {
      LOG_ERROR("{}", base::ToString(standalone.status()));
      exit_code = 1;
      return;
    }
    LOG_INFO("Berth is up; kubeconfig: {}/kubeconfig", options->data_folder);
    signals.Wait();
    LOG_INFO("stopping; pods keep running");
  });
}

}  // namespace berth::cmd
