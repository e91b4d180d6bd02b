#include <filesystem>
#include <memory>

#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "platform/files/private_folder.h"
#include "standalone/data_folder.h"
#include "store/backup.h"

namespace berth::cmd {
namespace {

struct Arguments {
  std::string data_folder = standalone::kDefaultDataFolder;
  std::string file;

  std::string database() const { return standalone::DatabasePath(data_folder); }
};

base::Status BackUpObjects(const Arguments& arguments) {
  RETURN_IF_ERROR(store::BackUpDatabase(arguments.database(), arguments.file));
  cli::Print(fmt::format("backed up to {}; it holds every object, Secrets too\n", arguments.file));
  return base::OkStatus();
}

base::Status RestoreObjects(const Arguments& arguments) {
  RETURN_IF_ERROR(platform::MakePrivateFolder(
      std::filesystem::path(arguments.database()).parent_path().string()));
  const auto aside = store::RestoreDatabase(arguments.file, arguments.database());
  if (aside.status().code() == base::StatusCode::kFailedPrecondition) {
    return base::Annotate(aside.status(), "stop 'berth up' first");
  }
  RETURN_IF_ERROR(aside);
  cli::Print(fmt::format("restored from {}\n", arguments.file));
  if (!aside->empty()) cli::Print(fmt::format("the replaced objects are kept as {}\n", *aside));
  return base::OkStatus();
}

void AddBackupCommand(CLI::App& app, int& exit_code, const char* name, const char* help,
                      base::Status (*run)(const Arguments&)) {
  CLI::App* command = app.add_subcommand(name, help);
  auto arguments = std::make_shared<Arguments>();
  command->add_option("--data", arguments->data_folder, "Data folder of a standalone Berth")
      ->capture_default_str();
  command->add_option("file", arguments->file, "File of the backup")->required();
  command->callback(
      [arguments, run, &exit_code] { exit_code = cli::ReportError(run(*arguments)); });
}

}  // namespace

void AddBackupCommands(CLI::App& app, int& exit_code) {
  AddBackupCommand(app, exit_code, "backup",
                   "Copy all objects of a standalone Berth to a file; it may run meanwhile",
                   BackUpObjects);
  AddBackupCommand(app, exit_code, "restore", "Replace the objects of a stopped Berth by a backup",
                   RestoreObjects);
}

}  // namespace berth::cmd
