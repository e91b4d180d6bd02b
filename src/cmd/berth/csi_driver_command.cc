#include <unistd.h>

#include <memory>

#include "base/log.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/pool_options.h"
#include "cmd/berth/signals.h"
#include "csidriver/driver.h"
#include "platform/file_systems/file_system.h"
#include "platform/limits.h"
#include "roles/pod_utilities.h"

namespace berth::cmd {

void AddCsiDriverCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("csi-driver", "Run the CSI driver for volumes of this host");
  auto options = std::make_shared<csidriver::DriverOptions>();
  auto pods = std::make_shared<roles::PodUtilitiesOptions>();
  auto verbosity = std::make_shared<int>(0);
  command->add_option("--driver-name", options->name, "Name of the driver")->capture_default_str();
  command->add_option("--node-id", options->node_id, "This node, as topology and CSINode name it")
      ->required();
  command->add_option("--pool", options->pool_folder, "Folder of the volumes' images")->required();
  command->add_option("--endpoint", options->endpoint, "Path of the socket to serve on")
      ->required();
  command->add_option(
      "--registration-folder", options->registration_folder,
      "The kubelet's folder plugins_registry; without it the driver does not register");
  AddPoolOptions(*command, *options);
  command->add_option("--flight", options->flight_file,
                      "File of the flight record, for 'berth explain' (default: no record)");
  command->add_option("--container-runtime-endpoint", pods->runtime_endpoint,
                      "CRI socket of this node's runtime: mkfs, fsck and the like run in the pod "
                      "that is registered for the driver's name (default: on this host)");
  pods->kubelet_folder = "/var/lib/kubelet";
  command
      ->add_option("--kubelet-dir", pods->kubelet_folder,
                   "The kubelet's folder, in which mount pods are registered")
      ->capture_default_str();
  command->add_flag("-v", *verbosity, "Log more");
  command->callback([options, pods, verbosity, &exit_code] {
    platform::PrepareProbes();
    StopSignals signals;
    base::InitLogging("csi-driver", *verbosity);
    if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
      LOG_WARNING("{}", base::ToString(raised));
    }
    std::unique_ptr<roles::PodUtilities> utilities;
    if (!pods->runtime_endpoint.empty()) {
      auto opened = roles::PodUtilities::Open(*pods);
      if (!opened.ok()) {
        LOG_ERROR("{}", base::ToString(opened.status()));
        exit_code = 1;
        return;
      }
      utilities = *std::move(opened);
      options->exec = &utilities->exec(options->name);
    }
    const auto driver = csidriver::Driver::Start(*options);
    if (!driver.ok()) {
      LOG_ERROR("{}", base::ToString(driver.status()));
      exit_code = 1;
      return;
    }
    signals.Wait();
  });
}

}  // namespace berth::cmd
