// `berth pool adopt` (cli/pool_adoption.h).

#include <memory>
#include <string>

#include "cli/output.h"
#include "cli/pool_adoption.h"
#include "cmd/berth/commands.h"
#include "standalone/data_folder.h"

namespace berth::cmd {

void AddPoolCommands(CLI::App& app, int& exit_code) {
  CLI::App* group = app.add_subcommand("pool", "Folders with images of volumes");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand("adopt",
                                            "Take back the images of a pool or a StorageCluster "
                                            "that was copied or restored; shows what it would do");
  struct Flags {
    std::string data_folder = standalone::kDefaultDataFolder;
    cli::AdoptOptions adopt;
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("--data", flags->data_folder, "Data folder of a standalone Berth")
      ->capture_default_str();
  command->add_option("--pool", flags->adopt.pool_folder, "The pool, if it is not <data>/pool");
  command->add_option("--images", flags->adopt.images_folder,
                      "The folder of images of a StorageCluster, instead of a pool");
  command->add_flag("--dangerous", flags->adopt.apply,
                    "Do it, although an image might be an old copy");
  command->callback([flags, &exit_code] {
    if (flags->adopt.pool_folder.empty()) {
      flags->adopt.pool_folder = standalone::PoolFolder(flags->data_folder);
    }
    exit_code = cli::ReportError(cli::AdoptPool(flags->adopt));
  });
}

}  // namespace berth::cmd
