#include <memory>

#include "cli/flex_check.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"

namespace berth::cmd {
namespace {

struct CheckFlags {
  volume::DriverCheckOptions check;
  std::vector<std::string> options;
  std::vector<std::string> secrets;
  bool ephemeral = false;
  int deadline_seconds = 30;
};

base::Status Check(CheckFlags flags) {
  ASSIGN_OR_RETURN(flags.check.options, cli::ParsePairs(flags.options));
  ASSIGN_OR_RETURN(flags.check.secrets, cli::ParsePairs(flags.secrets));
  flags.check.keeps_data = !flags.ephemeral;
  flags.check.deadline = std::chrono::seconds(flags.deadline_seconds);
  return cli::FlexCheck(flags.check);
}

void AddCheck(CLI::App& flex, int& exit_code) {
  CLI::App* command = flex.add_subcommand(
      "check", "Run each call of a driver on a scratch volume and say what is wrong (needs root)");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("driver", flags->check.executable, "The driver's executable")->required();
  command->add_option("--driver-name", flags->check.driver,
                      "Its name, vendor/driver (default: by its folder, vendor~driver)");
  command
      ->add_option("-o,--option", flags->options,
                   "NAME=VALUE for flexVolume.options; {scratch} in a value is a folder that is "
                   "there for the check alone")
      ->allow_extra_args(false);
  command->add_option("--secret", flags->secrets, "NAME=VALUE of the volume's Secret")
      ->allow_extra_args(false);
  command->add_option("--fs-type", flags->check.fs_type, "flexVolume.fsType");
  command->add_option("--node", flags->check.node, "Name of the node")->capture_default_str();
  command->add_option("--scratch", flags->check.scratch, "Folder in which it works")
      ->capture_default_str();
  command->add_option("--deadline", flags->deadline_seconds, "Seconds for each call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--ephemeral", flags->ephemeral, "A volume of this driver is empty each time");
  command->callback([flags, &exit_code] { exit_code = cli::ReportError(Check(*flags)); });
}

}  // namespace

void AddFlexCommands(CLI::App& app, int& exit_code) {
  CLI::App* flex = app.add_subcommand("flex", "Flexvolume drivers");
  flex->require_subcommand(1);
  AddCheck(*flex, exit_code);
}

}  // namespace berth::cmd
