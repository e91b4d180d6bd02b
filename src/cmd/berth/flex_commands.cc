#include <memory>

#include "cli/output.h"
#include "cli/plugins/flex_check.h"
#include "cli/plugins/flex_drivers.h"
#include "cmd/berth/commands.h"
#include "platform/mounts/mounter.h"
#include "standalone/data_folder.h"

namespace berth::cmd {
namespace {

struct CheckFlags {
  volume::DriverCheckOptions check;
  std::vector<std::string> options;
  std::vector<std::string> secrets;
  bool ephemeral = false;
  int deadline_seconds = 30;
};

base::Status CheckDriver(CheckFlags flags) {
  ASSIGN_OR_RETURN(flags.check.options, cli::ParsePairs(flags.options));
  ASSIGN_OR_RETURN(flags.check.secrets, cli::ParsePairs(flags.secrets));
  flags.check.keeps_data = !flags.ephemeral;
  flags.check.deadline = std::chrono::seconds(flags.deadline_seconds);
  return cli::RunFlexCheck(flags.check);
}

// The flags that say how to check a driver.
void AddCheckFlags(CLI::App& command, CheckFlags& flags) {
  command
      .add_option("-o,--option", flags.options,
                  "NAME=VALUE for flexVolume.options; {scratch} in a value is a folder that "
                  "exists only during the check")
      ->allow_extra_args(false);
  command.add_option("--secret", flags.secrets, "NAME=VALUE of the volume's Secret")
      ->allow_extra_args(false);
  command.add_option("--fs-type", flags.check.fs_type, "flexVolume.fsType");
  command.add_option("--node", flags.check.node, "Name of the node")->capture_default_str();
  command.add_option("--scratch", flags.check.scratch, "Folder in which it works")
      ->capture_default_str();
  command.add_option("--deadline", flags.deadline_seconds, "Seconds for each call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_flag("--ephemeral", flags.ephemeral, "A volume of this driver is empty each time");
}

void AddCheck(CLI::App& flex, int& exit_code) {
  CLI::App* command = flex.add_subcommand(
      "check", "Run each call of a driver on a scratch volume and say what is wrong (needs root)");
  auto flags = std::make_shared<CheckFlags>();
  command->add_option("driver", flags->check.executable, "The driver's executable")->required();
  command->add_option("--driver-name", flags->check.driver,
                      "Its name, vendor/driver (default: by its folder, vendor~driver)");
  AddCheckFlags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = cli::ReportError(CheckDriver(*flags)); });
}

// The flags that say where the drivers are.
struct DriversFlags {
  std::string data = standalone::kDefaultDataFolder;
  std::string drivers;  // empty: below `data`
  std::string folder() const {
    return drivers.empty() ? standalone::VolumePluginFolder(data) : drivers;
  }
};

void AddDriversFlags(CLI::App& command, DriversFlags& flags) {
  command.add_option("--data", flags.data, "Data folder of a standalone Berth")
      ->capture_default_str();
  command.add_option("--volume-plugin-dir", flags.drivers,
                     "Driver folder of the node (default: DATA/volume-plugins)");
}

int PrintResult(const base::StatusOr<std::string>& result) {
  if (result.ok()) cli::Print(*result);
  return cli::ReportError(result.status());
}

void AddInstall(CLI::App& flex, int& exit_code) {
  CLI::App* command = flex.add_subcommand(
      "install",
      "Check a driver, and put it into the driver folder: nothing has to be restarted, and volumes "
      "may be in use (needs root)");
  struct Flags {
    cli::FlexInstallOptions install;
    DriversFlags drivers;
    CheckFlags check;
    bool no_check = false;
  };
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("driver", flags->install.source,
                   "The driver's executable, or a folder vendor~driver with all of it")
      ->required();
  command->add_option("files", flags->install.files,
                      "Files and folders that go beside the executable");
  command->add_option("--driver-name", flags->install.driver,
                      "Its name, vendor/driver (default: by its folder, vendor~driver)");
  AddDriversFlags(*command, flags->drivers);
  AddCheckFlags(*command, flags->check);
  command->add_flag("--no-check", flags->no_check, "Install it unchecked");
  command->callback([flags, &exit_code] {
    flags->install.drivers = flags->drivers.folder();
    const auto check = [&flags](const std::string& executable, const std::string& driver) {
      if (flags->no_check) return base::OkStatus();
      flags->check.check.executable = executable;
      flags->check.check.driver = driver;
      const base::Status found = CheckDriver(flags->check);
      if (found.ok()) return found;
      return base::Error(found.code(), "{}; --no-check installs it unchecked",
                         base::Message(found));
    };
    exit_code = PrintResult(cli::InstallFlexDriver(flags->install, check));
  });
}

void AddList(CLI::App& flex, int& exit_code) {
  CLI::App* command =
      flex.add_subcommand("list", "Show the drivers of a driver folder, and what is wrong there");
  auto flags = std::make_shared<DriversFlags>();
  AddDriversFlags(*command, *flags);
  command->callback(
      [flags, &exit_code] { exit_code = PrintResult(cli::ListFlexDrivers(flags->folder())); });
}

void AddRemove(CLI::App& flex, int& exit_code) {
  CLI::App* command = flex.add_subcommand("remove",
                                          "Remove a driver. A standalone Berth can still unmount "
                                          "its volumes, because it keeps a copy of "
                                          "the driver; a kubelet cannot, so a driver of which it "
                                          "has volumes mounted stays (needs root)");
  auto flags = std::make_shared<DriversFlags>();
  auto driver = std::make_shared<std::string>();
  command->add_option("driver", *driver, "Its name, vendor/driver")->required();
  AddDriversFlags(*command, *flags);
  auto now = std::make_shared<bool>(false);
  command->add_flag("--now", *now, "Remove it also while a kubelet has volumes of it mounted");
  command->callback([flags, driver, now, &exit_code] {
    auto mounts = platform::NewMounter()->List();
    exit_code = mounts.ok() ? PrintResult(cli::RemoveFlexDriver(
                                  {.drivers = flags->folder(),
                                   .driver = *driver,
                                   .mounts = *std::move(mounts),
                                   .berth_kubelet = standalone::KubeletFolder(flags->data),
                                   .now = *now}))
                            : cli::ReportError(mounts.status());
  });
}

}  // namespace

void AddFlexCommands(CLI::App& app, int& exit_code) {
  CLI::App* flex = app.add_subcommand("flex", "Flexvolume drivers");
  flex->require_subcommand(1);
  AddCheck(*flex, exit_code);
  AddInstall(*flex, exit_code);
  AddList(*flex, exit_code);
  AddRemove(*flex, exit_code);
}

}  // namespace berth::cmd
