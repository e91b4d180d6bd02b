// `berth pool adopt`: takes back the images of a pool (block/pools/pool_adoption.h), or of the
// folder of a StorageCluster (block/images/image_folder.h), after it was copied or restored.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "block/images/image_folder.h"
#include "block/pools/pool_adoption.h"
#include "cli/output.h"
#include "cmd/berth/commands.h"
#include "standalone/data_folder.h"

namespace berth::cmd {
namespace {

using base::Status;
using base::StatusCode;
using block::AdoptionStep;

struct AdoptFlags {
  std::string data_folder = standalone::kDefaultDataFolder;
  std::string pool_folder;    // empty: that of the data folder
  std::string images_folder;  // of a StorageCluster; empty: a pool is meant
  bool dangerous = false;

  std::string folder() const {
    return pool_folder.empty() ? standalone::PoolFolder(data_folder) : pool_folder;
  }
};

std::string_view NameStep(AdoptionStep::Kind kind) {
  switch (kind) {
    case AdoptionStep::Kind::kNone:
      return "keep";
    case AdoptionStep::Kind::kAdopt:
      return "adopt";
    case AdoptionStep::Kind::kRefuse:
      return "refuse";
  }
  return "";
}

base::StatusOr<std::vector<AdoptionStep>> TakeSteps(const AdoptFlags& flags) {
  if (!flags.images_folder.empty()) {
    block::ImageFolder images(std::filesystem::absolute(flags.images_folder).string());
    return flags.dangerous ? images.AdoptImages() : images.PlanAdoption();
  }
  const std::string folder = std::filesystem::absolute(flags.folder()).string();
  return flags.dangerous ? block::AdoptImages(folder) : block::PlanAdoption(folder);
}

Status AdoptPool(const AdoptFlags& flags) {
  const auto steps = TakeSteps(flags);
  if (flags.images_folder.empty() && steps.status().code() == StatusCode::kFailedPrecondition) {
    return base::Annotate(steps.status(),
                          "stop 'berth up', or the driver whose pool it is, before the adoption");
  }
  RETURN_IF_ERROR(steps);
  const auto count = [&](AdoptionStep::Kind kind) {
    return std::ranges::count(*steps, kind, &AdoptionStep::kind);
  };
  for (const AdoptionStep& step : *steps) {
    const block::Record& record = step.record;
    cli::Print(fmt::format("{:6}  {} {}{}: {}\n", NameStep(step.kind), block::NameOf(record.kind),
                           record.id, record.name.empty() ? "" : " (" + record.name + ")",
                           step.detail));
  }
  const auto adopted = count(AdoptionStep::Kind::kAdopt);
  const auto refused = count(AdoptionStep::Kind::kRefuse);
  if (flags.dangerous) {
    cli::Print(fmt::format("adopted {} images\n", adopted));
  } else if (adopted > 0) {
    cli::Print(fmt::format(
        "nothing is changed: --dangerous adopts {} images. Do it only if no other machine uses "
        "the volumes, and no newer copy of them exists\n",
        adopted));
  }
  if (refused == 0) return base::OkStatus();
  return base::Error(StatusCode::kFailedPrecondition, "{} images do not fit their records",
                     refused);
}

}  // namespace

void AddPoolCommands(CLI::App& app, int& exit_code) {
  CLI::App* group = app.add_subcommand("pool", "Folders with images of volumes");
  group->require_subcommand(1);
  CLI::App* command = group->add_subcommand("adopt",
                                            "Take back the images of a pool or a StorageCluster "
                                            "that was copied or restored; shows what it would do");
  auto flags = std::make_shared<AdoptFlags>();
  command->add_option("--data", flags->data_folder, "Data folder of a standalone Berth")
      ->capture_default_str();
  command->add_option("--pool", flags->pool_folder, "The pool, if it is not <data>/pool");
  command->add_option("--images", flags->images_folder,
                      "The folder of images of a StorageCluster, instead of a pool");
  command->add_flag("--dangerous", flags->dangerous,
                    "Do it, although an image might be an old copy");
  command->callback([flags, &exit_code] { exit_code = cli::ReportError(AdoptPool(*flags)); });
}

}  // namespace berth::cmd
