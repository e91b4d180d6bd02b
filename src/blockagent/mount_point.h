// Where a folder stands in the mount table, which knows no symlinks.
#pragma once

#include <filesystem>
#include <string>

namespace berth::blockagent {

// The folder's own name stays as it is: what is mounted there is not asked anything.
inline std::string MountPointOf(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  const auto parent = std::filesystem::canonical(path.parent_path(), error);
  return error ? folder : (parent / path.filename()).string();
}

}  // namespace berth::blockagent
