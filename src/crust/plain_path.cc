#include "crust/plain_path.h"

#include <filesystem>

namespace berth::crust {

std::string PlainPath(std::string_view path) {
  std::string plain = std::filesystem::path(path).lexically_normal().string();
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
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
