// `berth controller`, `berth node`, and Berth called by a Go sidecar's name. Their flags are Go's
// (cmd/go_flags.h), so that CLI11 hands them on as they come.

#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "cmd/berth/signals.h"
#include "platform/limits.h"
#include "roles/controller_process.h"
#include "roles/node_process.h"

namespace berth::cmd {
namespace {

struct Called {
  std::string name;  // in help, errors and logs
  std::vector<GoFlag> flags;
  bool on_node = false;
  std::vector<std::string> roles;  // none: by --roles
};

bool AsksForHelp(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "-h" || argument == "-help" || argument == "--help") return true;
  }
  return false;
}

// Whether --roles is given, even empty.
bool NamesRoles(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](std::string_view argument) {
    while (argument.starts_with('-')) argument.remove_prefix(1);
    return argument == "roles" || argument.starts_with("roles=");
  });
}

template <typename Process>
int RunUntilSignal(const Called& called, const roles::ProcessOptions& options,
                   const std::vector<std::string>& warnings) {
  StopSignals signals;
  base::InitLogging(called.name, options.verbosity);
  for (const std::string& warning : warnings) LOG_WARNING("{}", warning);
  if (const auto raised = platform::RaiseDescriptorLimit(); !raised.ok()) {
    LOG_WARNING("{}", base::ToString(raised));
  }
  const auto process = Process::Start(options);
  if (!process.ok()) {
    LOG_ERROR("{}", base::ToString(process.status()));
    return 1;
  }
  signals.Wait();
  LOG_INFO("stopping");
  return 0;
}

int RunRoles(const Called& called, const std::vector<std::string>& arguments) {
  if (AsksForHelp(arguments)) {
    cli::Print(fmt::format("Usage of {}:\n{}", called.name, HelpText(called.flags)));
    return 0;
  }
  roles::ProcessOptions options;
  std::vector<std::string> warnings;
  if (const auto parsed = ParseGoFlags(called.flags, arguments, options, warnings); !parsed.ok()) {
    cli::PrintError(fmt::format("Error: {}: {}\n", called.name, base::Message(parsed)));
    return 2;
  }
  if (options.version) {
    cli::Print(fmt::format("{} {}\n", called.name, BERTH_VERSION));
    return 0;
  }
  if (options.registration_mode == roles::kRegistrationProbe) {
    if (!options.kubelet_registration_path.empty()) return 0;
    cli::PrintError(
        fmt::format("Error: {}: --kubelet-registration-path is required\n", called.name));
    return 1;
  }
  if (!called.roles.empty()) options.roles = called.roles;
  return called.on_node ? RunUntilSignal<roles::NodeProcess>(called, options, warnings)
                        : RunUntilSignal<roles::ControllerProcess>(called, options, warnings);
}

void AddRoleCommand(CLI::App& app, Called called, const std::string& help, int& exit_code) {
  CLI::App* command = app.add_subcommand(called.name, help);
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, called = std::move(called), &exit_code] {
    const std::vector<std::string> arguments = command->remaining();
    const bool agent = called.on_node && !NamesRoles(arguments);
    exit_code = agent ? RunNodeAgent(arguments) : RunRoles(called, arguments);
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
                   .flags = FlagsOf(sidecar),
                   .on_node = sidecar.on_node,
                   .roles = {std::string(sidecar.role)}},
                  arguments);
}

}  // namespace berth::cmd
