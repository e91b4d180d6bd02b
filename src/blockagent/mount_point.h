// Gives the path that a folder has in the mount table, which contains no symlinks.
#pragma once

#include <filesystem>
#include <string>

namespace berth::blockagent {

// The last part of the path is not resolved, because a file system that is mounted there could
// hang.
inline std::string MountPointOf(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  const auto parent = std::filesystem::canonical(path.parent_path(), error);
  return error ? folder : (parent / path.filename()).string();
}

}  // namespace berth::blockagent
