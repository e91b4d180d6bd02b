#include "cli/pool_adoption.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "block/images/image_folder.h"
#include "block/pools/pool_adoption.h"
#include "cli/output.h"

namespace berth::cli {
namespace {

using base::StatusCode;
using block::AdoptionStep;

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

base::StatusOr<std::vector<AdoptionStep>> TakeSteps(const AdoptOptions& options) {
  if (!options.images_folder.empty()) {
    block::ImageFolder images(std::filesystem::absolute(options.images_folder).string());
    return options.apply ? images.AdoptImages() : images.PlanAdoption();
  }
  const std::string folder = std::filesystem::absolute(options.pool_folder).string();
  return options.apply ? block::AdoptImages(folder) : block::PlanAdoption(folder);
}

}  // namespace

base::Status AdoptPool(const AdoptOptions& options) {
  const auto steps = TakeSteps(options);
  if (options.images_folder.empty() && steps.status().code() == StatusCode::kFailedPrecondition) {
    return base::Annotate(steps.status(),
                          "stop 'berth up', or the driver whose pool it is, before the adoption");
  }
  RETURN_IF_ERROR(steps);
  const auto count = [&](AdoptionStep::Kind kind) {
    return std::ranges::count(*steps, kind, &AdoptionStep::kind);
  };
  for (const AdoptionStep& step : *steps) {
    const block::Record& record = step.record;
    Print(fmt::format("{:6}  {} {}{}: {}\n", NameStep(step.kind), block::NameOf(record.kind),
                      record.id, record.name.empty() ? "" : " (" + record.name + ")", step.detail));
  }
  const auto adopted = count(AdoptionStep::Kind::kAdopt);
  const auto refused = count(AdoptionStep::Kind::kRefuse);
  if (options.apply) {
    Print(fmt::format("adopted {} images\n", adopted));
  } else if (adopted > 0) {
    Print(fmt::format(
        "nothing is changed: --dangerous adopts {} images. Do it only if no other machine uses "
        "the volumes, and no newer copy of them exists\n",
        adopted));
  }
  if (refused == 0) return base::OkStatus();
  return base::Error(StatusCode::kFailedPrecondition, "{} images do not fit their records",
                     refused);
}

}  // namespace berth::cli
