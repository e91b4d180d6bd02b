#include "platform/processes/own_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace berth::platform {

std::string FindInOwnFolder(std::string_view name) {
  std::error_code unknown;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  std::string path = (self.parent_path() / name).string();
  return access(path.c_str(), X_OK) == 0 ? path : std::string();
}

}  // namespace berth::platform
