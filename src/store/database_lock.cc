#include "store/database_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace berth::store {

base::StatusOr<base::UniqueFd> LockDatabase(const std::string& database) {
  const std::string path = database + ".lock";
  base::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return base::Error(base::StatusCode::kInternal, "open '{}': {}", path,
                       std::generic_category().message(errno));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::Error(base::StatusCode::kFailedPrecondition,
                       "database '{}' is in use by another process", database);
  }
  return fd;
}

std::string RestoringPath(const std::string& database) { return database + ".restoring"; }

}  // namespace berth::store
