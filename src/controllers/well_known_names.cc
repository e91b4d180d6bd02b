#include "controllers/well_known_names.h"

#include <fmt/format.h>

#include "api/kinds/lease_names.h"

namespace berth::controllers {

std::string AttacherFinalizer(std::string_view driver) {
  return fmt::format("external-attacher/{}", api::SanitizeDriverName(driver));
}

}  // namespace berth::controllers
