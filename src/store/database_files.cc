#include "store/database_files.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "base/files/private_mode.h"
#include "base/unique_fd.h"

namespace berth::store {

base::Status MakeFilesPrivate(const std::string& database) {
  const std::filesystem::path path = std::filesystem::absolute(database);
  const std::string name = path.filename();
  std::error_code error;
  std::filesystem::directory_iterator entry(path.parent_path(), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (!entry->path().filename().string().starts_with(name) || !entry->is_regular_file(gone)) {
      continue;
    }
    RETURN_IF_ERROR(base::TightenModeIfThere(entry->path()));
  }
  if (!error) return base::OkStatus();
  return base::Error(base::StatusCode::kInternal, "list the folder of '{}': {}", database,
                     error.message());
}

base::Status MakeDatabaseFile(const std::string& database) {
  const base::UniqueFd fd(open(database.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.valid()) return base::OkStatus();
  return base::Error(base::StatusCode::kInternal, "open database '{}': {}", database,
                     std::generic_category().message(errno));
}

}  // namespace berth::store
