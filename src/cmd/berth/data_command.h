// Commands on the data folder of a standalone Berth, which need no API.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "base/status.h"
#include "cli/output.h"

namespace berth::cmd {

// Adds the command `name` to a group, with the flag --data for `arguments->data_folder`. It calls
// `run`, and reports the error. The caller adds what else the command takes.
template <typename Arguments>
CLI::App* AddDataCommand(CLI::App& group, int& exit_code,
                         const std::shared_ptr<Arguments>& arguments, const char* name,
                         const char* help, base::Status (*run)(const Arguments&)) {
  CLI::App* command = group.add_subcommand(name, help);
  command->add_option("--data", arguments->data_folder, "Data folder of a standalone Berth")
      ->capture_default_str();
  command->callback(
      [arguments, run, &exit_code] { exit_code = cli::ReportError(run(*arguments)); });
  return command;
}

}  // namespace berth::cmd
