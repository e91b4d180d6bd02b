// `berth`: every long-running role and the command line, as subcommands.

#include <sys/stat.h>

#include "base/fault.h"
#include "base/log.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "platform/allocator.h"
#include "platform/limits.h"

int main(int argc, char** argv) {
  // Standard output has the answers of commands, and never the log. Roles set a name of their own.
  berth::base::InitLogging("berth", 0);
  // All controllers of a driver in one process have some forty threads, which live long, and after
  // a burst the caches of these threads keep a fifth of the memory.
  if (argc > 1 && argv[1] == std::string_view("controller")) {
    berth::platform::RestartWithSmallThreadCaches(argv);
  }
  berth::platform::TuneAllocator();
  // Nearly every role holds Secrets, keys or tokens, and so do the client commands.
  if (const auto hidden = berth::platform::HideMemory(); !hidden.ok()) {
    berth::cli::PrintError(fmt::format("Warning: {}\n", berth::base::Message(hidden)));
  }
  // Nothing that this program or a utility of it makes is writable for others, whatever the umask
  // of the process that started it. A stricter umask stays.
  umask(umask(S_IWGRP | S_IWOTH) | S_IWGRP | S_IWOTH);
  // The sidecar by whose name the program is called, or whose name is its first argument; null if
  // there is none.
  const berth::cmd::Sidecar* sidecar = argc > 0 ? berth::cmd::FindSidecar(argv[0]) : nullptr;
  int flags = 1;
  if (sidecar == nullptr && argc > 1) {
    sidecar = berth::cmd::FindSidecar(argv[1]);
    flags = 2;
  }
  const std::string_view role = sidecar != nullptr ? sidecar->name : argc > 1 ? argv[1] : "";
  if (const auto faults = berth::base::InitFaultPoints(role); !faults.ok()) {
    berth::cli::PrintError(fmt::format("Error: {}\n", berth::base::Message(faults)));
    return 2;
  }
  if (sidecar != nullptr) return berth::cmd::RunSidecar(*sidecar, {argv + flags, argv + argc});
  int exit_code = 0;
  CLI::App app("Berth, the storage plane between a container and its volume", "berth");
  app.require_subcommand(1);
  app.set_version_flag("--version", BERTH_VERSION);
  berth::cmd::AddUpCommand(app, exit_code);
  berth::cmd::AddCsiDriverCommand(app, exit_code);
  berth::cmd::AddIoProxyCommand(app, exit_code);
  berth::cmd::AddCrustHandlerCommand(app, exit_code);
  berth::cmd::AddKataHandlerCommand(app, exit_code);
  berth::cmd::AddCrustProxyCommand(app, exit_code);
  berth::cmd::AddRoleCommands(app, exit_code);
  berth::cmd::AddClientCommands(app, exit_code);
  berth::cmd::AddBackupCommands(app, exit_code);
  berth::cmd::AddTokenCommands(app, exit_code);
  berth::cmd::AddCertificateCommands(app, exit_code);
  berth::cmd::AddFaultCommands(app);
  berth::cmd::AddShimCommands(app, exit_code);
  berth::cmd::AddFlexCommands(app, exit_code);
  berth::cmd::AddFenceCommands(app, exit_code);
  berth::cmd::AddPoolCommands(app, exit_code);
  berth::cmd::AddBlockAgentCommand(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
