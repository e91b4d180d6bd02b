#include "crust/plain_path.h"

#include <filesystem>

#include "base/text.h"

namespace berth::crust {

std::string PlainPath(std::string_view path) {
  return std::string(base::TrimSlashes(std::filesystem::path(path).lexically_normal().native()));
}

bool IsBelow(std::string_view source, std::string_view target, std::string_view& sub_path) {
  if (target.empty() || !source.starts_with(target)) return false;
  sub_path = source.substr(target.size());
  if (sub_path.empty()) return true;
  if (sub_path.front() != '/') return false;
  sub_path.remove_prefix(1);
  return true;
}

}  // namespace berth::crust
