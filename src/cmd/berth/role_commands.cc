// `berth controller`, `berth node`, and `berth` under the name of a Go sidecar. Their flags have
// the syntax of Go (cmd/go_flags.h), so CLI11 passes them on without parsing them.

#include <cstdlib>

#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "platform/limits.h"
#include "roles/controller_process.h"
#include "roles/node_process.h"

namespace berth::cmd {
namespace {

// A command or sidecar that runs roles.
struct RoleProgram {
  std::string name;  // in help, errors and logs
  std::vector<GoFlag> flags;
  bool on_node = false;
  std::vector<std::string> roles;  // empty: those of --roles
  // $KUBECONFIG counts, and before --kubeconfig.
  bool reads_kubeconfig_variable = false;
  StartExitCodes exit_codes = {.refused = 2};
};

bool AsksForHelp(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "-h" || argument == "-help" || argument == "--help") return true;
  }
  return false;
}

// Whether --roles is given, even with an empty value.
bool NamesRoles(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](std::string_view argument) {
    while (argument.starts_with('-')) argument.remove_prefix(1);
    return argument == "roles" || argument.starts_with("roles=");
  });
}

// Says which options exclude each other; "" if all go together.
std::string FindConflict(const roles::ProcessOptions& options) {
  // The snapshotters of all nodes would share one lease, so that only one of them works. Of the
  // sidecars with --node-deployment csi-snapshotter alone refuses it.
  if (!options.settings.snapshotter.node_name.empty() && options.election.on) {
    return "Leader election cannot happen when node-deployment is set to true";
  }
  if (!options.http_address.empty() && !options.metrics_address.empty()) {
    return "only one of --metrics-address and --http-endpoint can be set";
  }
  return "";
}

template <typename Process>
int RunUntilSignal(const RoleProgram& program, const roles::ProcessOptions& options,
                   const std::vector<std::string>& warnings) {
  StopSignals signals;
  base::InitLogging(program.name, options.verbosity);
  for (const std::string& warning : warnings) LOG_WARNING("{}", warning);
  if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
    LOG_WARNING("{}", base::ToString(raised));
  }
  const auto process = Process::Start(options);
  if (!process.ok()) {
    LOG_ERROR("{}", base::ToString(process.status()));
    return process.status().code() == base::StatusCode::kUnavailable
               ? program.exit_codes.no_endpoint
               : program.exit_codes.not_started;
  }
  signals.Wait();
  LOG_INFO("stopping");
  return 0;
}

int RunRoles(const RoleProgram& program, const std::vector<std::string>& arguments) {
  if (AsksForHelp(arguments)) {
    cli::Print(fmt::format("Usage of {}:\n{}", program.name, FormatHelp(program.flags)));
    return 0;
  }
  roles::ProcessOptions options;
  std::vector<std::string> warnings;
  if (const auto parsed = ParseGoFlags(program.flags, arguments, options, warnings); !parsed.ok()) {
    cli::PrintError(fmt::format("Error: {}: {}\n", program.name, base::Message(parsed)));
    return parsed.code() == base::StatusCode::kFailedPrecondition ? program.exit_codes.refused : 2;
  }
  if (options.version) {
    cli::Print(fmt::format("{} {}\n", program.name, BERTH_VERSION));
    return 0;
  }
  if (options.registration_mode == roles::kRegistrationProbe) {
    if (!options.kubelet_registration_path.empty()) return 0;
    cli::PrintError(
        fmt::format("Error: {}: --kubelet-registration-path is required\n", program.name));
    return 1;
  }
  // Each Go program ends with 1 here, also one that ends by klog.Fatal elsewhere.
  if (const std::string conflict = FindConflict(options); !conflict.empty()) {
    cli::PrintError(fmt::format("Error: {}: {}\n", program.name, conflict));
    return 1;
  }
  if (!program.roles.empty()) options.roles = program.roles;
  const char* kubeconfig = std::getenv("KUBECONFIG");
  if (program.reads_kubeconfig_variable && kubeconfig != nullptr && *kubeconfig != '\0') {
    options.kubeconfig = kubeconfig;
  }
  return program.on_node ? RunUntilSignal<roles::NodeProcess>(program, options, warnings)
                         : RunUntilSignal<roles::ControllerProcess>(program, options, warnings);
}

void AddRoleCommand(CLI::App& app, RoleProgram program, const std::string& help, int& exit_code) {
  CLI::App* command = app.add_subcommand(program.name, help);
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, program = std::move(program), &exit_code] {
    const std::vector<std::string> arguments = command->remaining();
    const bool agent = program.on_node && !NamesRoles(arguments);
    exit_code = agent ? RunNodeAgent(arguments) : RunRoles(program, arguments);
  });
}

}  // namespace

void AddRoleCommands(CLI::App& app, int& exit_code) {
  AddRoleCommand(app, {.name = "controller", .flags = ControllerFlags()},
                 "Run controllers of CSI drivers against a Kubernetes API", exit_code);
  AddRoleCommand(
      app, {.name = "node", .flags = NodeFlags(), .on_node = true},
      "Run a further node; or with --roles announce a CSI driver to the kubelet, and tell "
      "whether it is alive",
      exit_code);
}

int RunSidecar(const Sidecar& sidecar, const std::vector<std::string>& arguments) {
  return RunRoles({.name = std::string(sidecar.name),
                   .flags = ListFlags(sidecar),
                   .on_node = sidecar.on_node,
                   .roles = {std::string(sidecar.role)},
                   .reads_kubeconfig_variable = sidecar.reads_kubeconfig_variable,
                   .exit_codes = sidecar.exit_codes},
                  arguments);
}

}  // namespace berth::cmd
