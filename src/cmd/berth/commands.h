// Adds the subcommands of `berth` to CLI11's app.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cmd/sidecars.h"

namespace berth::cmd {

// Each function adds its subcommands to `app`. A subcommand writes its exit code to `exit_code`, if
// there is one. Both must live until `app` has parsed the arguments.
//
// apply, get, describe, explain, doctor, delete, logs, exec, mount, umount, upgrade
void AddClientCommands(CLI::App& app, int& exit_code);
void AddBackupCommands(CLI::App& app, int& exit_code);       // backup, restore
void AddTokenCommands(CLI::App& app, int& exit_code);        // token create, list, delete
void AddFaultCommands(CLI::App& app);                        // faults list
void AddShimCommands(CLI::App& app, int& exit_code);         // install-shims, remove-shims
void AddFlexCommands(CLI::App& app, int& exit_code);         // flex check, install, list, remove
void AddFenceCommands(CLI::App& app, int& exit_code);        // fence break
void AddPoolCommands(CLI::App& app, int& exit_code);         // pool adopt
void AddCertificateCommands(CLI::App& app, int& exit_code);  // certificate list, revoke
void AddBlockAgentCommand(CLI::App& app, int& exit_code);
void AddUpCommand(CLI::App& app, int& exit_code);
void AddCsiDriverCommand(CLI::App& app, int& exit_code);
void AddIoProxyCommand(CLI::App& app, int& exit_code);
void AddCrustHandlerCommand(CLI::App& app, int& exit_code);
void AddKataHandlerCommand(CLI::App& app, int& exit_code);
void AddCrustProxyCommand(CLI::App& app, int& exit_code);
void AddRoleCommands(CLI::App& app, int& exit_code);  // controller, node

// Runs `berth node` with the arguments that follow it, none of which is --roles. Returns the exit
// code.
int RunNodeAgent(const std::vector<std::string>& arguments);

// Runs the role of the sidecar until a signal comes, with the flags of the Go program. Returns the
// exit code.
int RunSidecar(const Sidecar& sidecar, const std::vector<std::string>& arguments);

}  // namespace berth::cmd
