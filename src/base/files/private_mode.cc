#include "base/files/private_mode.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"

namespace berth::base {
namespace {

constexpr mode_t kOfOthers = S_IRWXG | S_IRWXO;

Status ModeError(int error, const std::string& path) {
  const StatusCode code = error == ENOENT                     ? StatusCode::kNotFound
                          : error == EPERM || error == EACCES ? StatusCode::kPermissionDenied
                                                              : StatusCode::kInternal;
  return Error(code, "make {} private: {}", Quote(path), std::generic_category().message(error));
}

}  // namespace

Status TightenMode(const std::string& path) {
  // O_NONBLOCK is set, because the path may be a FIFO, and its open must not wait for a writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st;
  if (!fd.valid() || fstat(fd.get(), &st) != 0) return ModeError(errno, path);
  const mode_t mode = st.st_mode & 07777;
  if ((mode & kOfOthers) == 0) return OkStatus();
  if (S_ISDIR(st.st_mode) && (mode & S_ISVTX) != 0 && (mode & S_IWOTH) != 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} has mode {:04o}, so all users share it: name a folder that is Berth's own",
                 Quote(path), mode);
  }
  const mode_t wanted = mode & ~kOfOthers;
  if (fchmod(fd.get(), wanted) != 0) return ModeError(errno, path);
  LOG_WARNING("other users had rights to {} (mode {:04o}); it is private now (mode {:04o})",
              Quote(path), mode, wanted);
  return OkStatus();
}

Status TightenModeIfThere(const std::string& path) {
  const Status status = TightenMode(path);
  return status.code() == StatusCode::kNotFound ? OkStatus() : status;
}

}  // namespace berth::base
