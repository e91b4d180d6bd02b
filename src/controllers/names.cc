#include "controllers/names.h"

#include <cctype>

namespace berth::controllers {

std::string SanitizeDriverName(std::string_view driver) {
  std::string out;
  for (const char c : driver) {
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  }
  if (out.ends_with('-')) out += 'X';
  return out;
}

}  // namespace berth::controllers
