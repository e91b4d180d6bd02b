#include <memory>

#include "cli/output.h"
#include "cli/plugins/shims.h"
#include "cmd/berth/commands.h"

namespace berth::cmd {
namespace {

using ShimAction = base::Status (*)(const cli::ShimOptions&, const cli::ReportLine&);

// Adds a command with the options that both commands have.
std::shared_ptr<cli::ShimOptions> AddShimCommand(CLI::App& app, int& exit_code, const char* name,
                                                 const char* help, ShimAction run,
                                                 CLI::App*& command) {
  command = app.add_subcommand(name, help);
  auto options = std::make_shared<cli::ShimOptions>();
  command->add_option("--sbin", options->sbin, "Folder of the shims")->capture_default_str();
  command->add_option("--records", options->records, "Folder of the records about shims")
      ->capture_default_str();
  command->callback([options, run, &exit_code] {
    exit_code = cli::ReportError(
        run(*options, [](std::string_view line) { cli::Print(fmt::format("{}\n", line)); }));
  });
  return options;
}

}  // namespace

void AddShimCommands(CLI::App& app, int& exit_code) {
  CLI::App* install = nullptr;
  const auto options = AddShimCommand(
      app, exit_code, "install-shims",
      "Install berth-shim under the names of mount utilities: if a kubelet or mount(8) calls one, "
      "the utility runs in the pod that is registered for its plugin",
      cli::InstallShims, install);
  install
      ->add_option("names", options->names,
                   "Volume types (glusterfs, cephfs, nfs), or utilities (mkfs.xfs)")
      ->required();
  install->add_option("--plugin", options->plugin,
                      "Volume plugin whose pod has the utilities, as kubernetes.io/rbd");
  install
      ->add_option("--socket", options->socket,
                   "Socket at which the node agent runs utilities (its --utility-socket)")
      ->capture_default_str();
  install->add_option("--program", options->program,
                      "Program of the shims (default: berth-shim beside this program)");
  CLI::App* remove = nullptr;
  const auto to_remove = AddShimCommand(
      app, exit_code, "remove-shims",
      "Remove the shims that install-shims installed, and nothing else", cli::RemoveShims, remove);
  remove->add_option("names", to_remove->names, "Volume types or utilities (default: all shims)");
}

}  // namespace berth::cmd
