// The subcommands of `berth`, as CLI11 knows them.
#pragma once

#include <CLI/CLI.hpp>

namespace berth::cmd {

// Each adds its subcommands to `app`; a subcommand that ran leaves its exit code in `exit_code`.
void AddClientCommands(CLI::App& app,
                       int& exit_code);  // apply get describe delete logs exec mount umount
void AddBackupCommands(CLI::App& app, int& exit_code);  // backup restore
void AddTokenCommands(CLI::App& app, int& exit_code);   // token create, list, delete
void AddFaultCommands(CLI::App& app);                   // faults list
void AddUpCommand(CLI::App& app, int& exit_code);
void AddCsiDriverCommand(CLI::App& app, int& exit_code);

}  // namespace berth::cmd
