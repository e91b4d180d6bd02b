#include "cmd/berth-init/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "base/unique_fd.h"

namespace berth::init {

using base::UniqueFd;
using base::ipc::Failure;
using base::ipc::Ok;
using base::ipc::Result;
using base::ipc::SystemFailure;

namespace {

Failure WriteSynced(int fd, const std::string& path, std::string_view content) {
  if (const int error = base::WriteAll(fd, content); error != 0) {
    return SystemFailure("write '" + path + "'", error);
  }
  // The file is readable for all users, whatever the umask is.
  if (fchmod(fd, 0644) != 0) return SystemFailure("set the mode of '" + path + "'", errno);
  if (fsync(fd) != 0) return SystemFailure("sync '" + path + "'", errno);
  return Ok();
}

Failure WriteTemp(const std::string& path, std::string_view content) {
  // Removes the file of an earlier start of this container that was interrupted.
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return SystemFailure("remove '" + path + "'", errno);
  }
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd.valid()) return SystemFailure("make '" + path + "'", errno);
  return WriteSynced(fd.get(), path, content);
}

}  // namespace

Result<std::string> ReadWhole(const std::string& path) {
  constexpr size_t kMost = 64 << 20;  // the host's mount table is the largest
  std::string content;
  const int error = base::ReadWholeFile(path, kMost, content);
  if (error != 0) return SystemFailure("read '" + path + "'", error);
  return content;
}

Failure WriteAtomically(const std::string& folder, const std::string& name, const std::string& temp,
                        std::string_view content) {
  const std::string path = folder + "/" + name;
  const std::string temp_path = folder + "/" + temp;
  Failure failure = WriteTemp(temp_path, content);
  if (failure.ok() && rename(temp_path.c_str(), path.c_str()) != 0) {
    failure = SystemFailure("replace '" + path + "'", errno);
  }
  if (!failure.ok()) {
    unlink(temp_path.c_str());
    return failure;
  }
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return SystemFailure("sync '" + folder + "'", errno);
  return Ok();
}

}  // namespace berth::init
