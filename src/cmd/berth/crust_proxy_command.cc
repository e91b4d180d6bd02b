#include <memory>

#include "base/log.h"
#include "base/text.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "crustproxy/crust_proxy.h"

namespace berth::cmd {

void AddCrustProxyCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "crust-proxy",
      "Stand between a kubelet and a CSI driver, so that runtime handlers mount its volumes");
  auto options = std::make_shared<crustproxy::CrustProxyOptions>();
  auto verbosity = std::make_shared<int>(0);
  command
      ->add_option("--endpoint", options->socket,
                   "Socket at which the kubelet finds the driver: the registrar's "
                   "--kubelet-registration-path")
      ->required();
  command->add_option("--csi-address", options->csi_address, "The driver's socket")->required();
  command->add_option("--node-name", options->node,
                      "Name of the Node (default: the name of this host)");
  command->add_option("--kubelet", options->kubelet_folder, "The kubelet's folder")
      ->capture_default_str();
  command
      ->add_option("--data", options->data_folder,
                   "Folder of its records; each driver's proxy has one of its own")
      ->capture_default_str();
  command->add_option("--kubeconfig", options->kubeconfig,
                      "How to reach the API (default: the pod's service account, or $KUBECONFIG)");
  command
      ->add_option_function<std::string>(
          "--sandbox-writers",
          [options](const std::string& text) { options->refuse_shared_writers = text == "refuse"; },
          "warn or refuse: pods that write, in a sandbox of their own, to a volume whose claim is "
          "not ReadWriteOncePod")
      ->check(CLI::IsMember({"warn", "refuse"}))
      ->default_str("warn");
  command->add_flag("-v", *verbosity, "Log more");
  command->callback([options, verbosity, &exit_code] {
    StopSignals signals;
    base::InitLogging("crust-proxy", *verbosity);
    options->kubelet_folder = std::string(base::TrimSlashes(options->kubelet_folder));
    const auto proxy = crustproxy::CrustProxy::Start(*options);
    if (!proxy.ok()) {
      LOG_ERROR("{}", base::ToString(proxy.status()));
      exit_code = 1;
      return;
    }
    LOG_INFO("serving driver {} at {}", base::Quote(options->csi_address),
             base::Quote(options->socket));
    signals.Wait();
  });
}

}  // namespace berth::cmd
