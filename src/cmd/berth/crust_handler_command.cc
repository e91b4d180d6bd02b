#include <map>
#include <memory>
#include <string>

#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "crust/crust_handler.h"

namespace berth::cmd {

namespace {

void AddGuestOptions(CLI::App& command, crust::CrustHandlerOptions& options) {
  const std::map<std::string, crust::SandboxType> types = {
      {"namespace", crust::SandboxType::kNamespace}, {"vm", crust::SandboxType::kVm}};
  command
      .add_option("--sandbox", options.sandbox,
                  "What a sandbox is: a mount namespace of this host (\"namespace\", the default), "
                  "or a virtual machine whose own kernel mounts the volumes (\"vm\")")
      ->transform(CLI::CheckedTransformer(types));
  command.add_option("--guest-kernel", options.guest.kernel,
                     "The kernel of sandboxes that are virtual machines, such as "
                     "/boot/vmlinuz-6.1.0-42-cloud-amd64");
  command.add_option("--guest-modules", options.guest.modules,
                     "The folder of that kernel's modules, such as "
                     "/lib/modules/6.1.0-42-cloud-amd64");
  command
      .add_option("--guest-runc", options.guest.runc,
                  "This machine's runc, of which each guest gets a copy for its containers")
      ->capture_default_str();
  command.add_option("--guest-memory", options.guest.memory_mib, "Memory of each guest, in MiB")
      ->capture_default_str();
  command.add_option("--guest-cpus", options.guest.cpus, "Processors of each guest")
      ->capture_default_str();
}

}  // namespace

void AddCrustHandlerCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "crust-handler", "Run the handler that mounts volumes in sandboxes, not on the host");
  auto options = std::make_shared<crust::CrustHandlerOptions>();
  options->socket = base::ipc::crust::kHandlerSocket;
  options->oci_socket = base::ipc::crust::kOciSocket;
  options->run_folder = base::ipc::crust::kRunFolder;
  auto verbosity = std::make_shared<int>(0);
  command
      ->add_option("--socket", options->socket,
                   "Socket of the CRUST API, as RuntimeClass.fsMgmtSocket names it")
      ->capture_default_str();
  command
      ->add_option("--oci-socket", options->oci_socket,
                   "Socket at which berth-oci asks this handler")
      ->capture_default_str();
  command->add_option("--data", options->data_folder, "Folder of the sandboxes' mount namespaces")
      ->capture_default_str();
  command
      ->add_option("--run", options->run_folder,
                   "Folder of its records and of the pods' plans, on a tmpfs")
      ->capture_default_str();
  command->add_option("--kubelet", options->kubelet_folder, "The kubelet's folder")
      ->capture_default_str();
  command
      ->add_option(
          "--capabilities", options->capabilities,
          "Capabilities that the handler offers, such as SUBPATH,VOLUME_STATS (default: all)")
      ->delimiter(',');
  command
      ->add_option("--file-systems", options->file_systems,
                   "File systems on block devices that are mounted")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--share-file-systems", options->shares,
                   "File systems that the kernel mounts from a share, such as nfs4")
      ->delimiter(',');
  command
      ->add_option("--utility-file-systems", options->utility_shares,
                   "File systems that a mount utility mounts from a share, such as glusterfs; or "
                   "TYPE=PROGRAM, where the utility is not the host's mount.TYPE")
      ->delimiter(',');
  AddGuestOptions(*command, *options);
  command->add_flag("-v", *verbosity, "Log more");
  command->callback([options, verbosity, &exit_code] {
    StopSignals signals;
    base::InitLogging("crust-handler", *verbosity);
    const auto handler = crust::CrustHandler::Start(*options);
    if (!handler.ok()) {
      LOG_ERROR("{}", base::ToString(handler.status()));
      exit_code = 1;
      return;
    }
    LOG_INFO("serving at {} and {}", base::Quote(options->socket),
             base::Quote(options->oci_socket));
    signals.Wait();
  });
}

}  // namespace berth::cmd
