#include "cmd/berth/node_flags.h"

#include "cmd/berth/duration_option.h"
#include "cmd/berth/pool_options.h"
#include "cmd/go_flags.h"

namespace berth::cmd {

void AddNodeFlags(CLI::App& app, standalone::LocalNodeOptions& options) {
  app.add_option("--data", options.data_folder, "Data folder")->capture_default_str();
  app.add_option("--node-name", options.node_name, "Name of the node (default: the host's)");
  app.add_option_function<std::vector<std::string>>(
      "--node-label",
      [&options](const std::vector<std::string>& labels) {
        for (const std::string& label : labels) {
          const size_t equals = label.find('=');
          if (equals == std::string::npos || equals == 0) {
            throw CLI::ValidationError("--node-label", "'" + label + "' is not KEY=VALUE");
          }
          options.labels[label.substr(0, equals)] = label.substr(equals + 1);
        }
      },
      "KEY=VALUE: label of the node; may be given several times");
  app.add_option("--container-runtime-endpoint", options.runtime_endpoint,
                 "CRI socket of the runtime")
      ->capture_default_str();
  app.add_option("--pool", options.pool_folder,
                 "Folder of the volumes' images (default: DATA/pool)");
  AddPoolOptions(app, options);
  app.add_option("--volume-plugin-dir", options.volume_plugin_folder,
                 "Folder of Flexvolume drivers (default: DATA/volume-plugins)");
  app.add_option("--utility-socket", options.utility_socket,
                 "Socket at which berth-shim has utilities run in pods (default: "
                 "DATA/run/utilities.sock)");
  app.add_option("--crust-run", options.crust_run_folder,
                 "Folder in which 'berth crust-handler' finds pods' plans (its --run; default: "
                 "/run/berth/crust)");
  app.add_option_function<std::string>(
         "--sandbox-writers",
         [&options](const std::string& text) {
           options.refuse_shared_sandbox_writers = text == "refuse";
         },
         "warn or refuse: pods that write, in a sandbox of their own, to a volume whose claim "
         "is not ReadWriteOncePod")
      ->check(CLI::IsMember({"warn", "refuse"}))
      ->default_str("warn");
  app.add_option_function<std::string>(
      "--feature-gates",
      [&options](const std::string& text) {
        const auto gates = ParseGates(text);
        if (!gates.ok()) {
          throw CLI::ValidationError("--feature-gates", std::string(base::Message(gates.status())));
        }
        for (const auto& [name, on] : *gates) {
          if (name != "MountContainers") {
            throw CLI::ValidationError(
                "--feature-gates",
                "'" + name + "' is unknown; the only known one is MountContainers");
          }
          options.mount_containers = on;
        }
      },
      "NAME=true|false,...; MountContainers (true): volumes' utilities run in the pods that are "
      "registered for them");
  AddDuration(app, "--node-lease-duration", options.lease_duration,
              "How long the node's Lease promises that it lives; renewed four times as often "
              "(default: 40s)");
  app.add_option("--http-endpoint", options.http_endpoint,
                 "Address at which metrics and health are served, as ':8080' (default: nowhere)");
  app.add_flag("--containerized", options.containerized,
               "This runs in a container, with the host's process ids: what is mounted on the host "
               "is mounted in the host's mount namespace");
}

}  // namespace berth::cmd
