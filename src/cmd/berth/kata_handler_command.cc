#include <memory>

#include "base/log.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "crust/kata/kata_handler.h"

namespace berth::cmd {
namespace {

int ServeKata(const crust::kata::KataHandlerOptions& options, int verbosity) {
  StopSignals signals;
  base::InitLogging("kata-handler", verbosity);
  const auto handler = crust::kata::KataHandler::Start(options);
  if (!handler.ok()) {
    LOG_ERROR("{}", base::ToString(handler.status()));
    return 1;
  }
  LOG_INFO("serving at {}", base::Quote(options.socket));
  signals.Wait();
  return 0;
}

}  // namespace

void AddKataHandlerCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "kata-handler", "Run the handler that has an unmodified Kata mount volumes in its sandboxes");
  auto options = std::make_shared<crust::kata::KataHandlerOptions>();
  auto verbosity = std::make_shared<int>(0);
  const auto add = [&](const char* name, std::string& value, const char* help) {
    command->add_option(name, value, help)->capture_default_str();
  };
  add("--socket", options->socket,
      "Socket of the CRUST API, as RuntimeClass.fsMgmtSocket names it");
  add("--data", options->data_folder, "Folder of the records about volumes");
  add("--kubelet", options->kubelet_folder, "The kubelet's folder");
  add("--kata-run", options->kata_run, "Folder below which Kata has its files and sockets");
  add("--bundles", options->bundles,
      "Folder of containerd's bundles, which say of which pod a sandbox is");
  add("--runtime", options->runtime,
      "Kata's runtime to which the RuntimeClass leads: go, or rust, which offers less");
  command
      ->add_option("--capabilities", options->capabilities,
                   "Capabilities that the handler offers, such as VOLUME_STATS (default: all that "
                   "the runtime has)")
      ->delimiter(',');
  command
      ->add_option("--file-systems", options->file_systems,
                   "File systems on block devices that Kata's guest kernel mounts")
      ->delimiter(',')
      ->capture_default_str();
  command->add_flag("-v", *verbosity, "Log more");
  command->callback(
      [options, verbosity, &exit_code] { exit_code = ServeKata(*options, *verbosity); });
}

}  // namespace berth::cmd
