#include "platform/files/durable_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/files/process_stat.h"
#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/disk_reserve.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr std::string_view kTempMark = ".tmp-";
constexpr size_t kRandom = 6;  // characters after the mark

// Removes the files of a folder whose names fulfil `condition`; a folder that is not there is OK.
template <typename Condition>
base::Status RemoveFilesWhere(const std::string& folder, const Condition& condition) {
  const base::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  if (names.status().code() == base::StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(names);
  for (const std::string& name : *names) {
    if (!condition(name)) continue;
    const std::string path = fmt::format("{}/{}", folder, name);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(errno, fmt::format("remove {}", Quote(path)));
    }
  }
  return base::OkStatus();
}

base::StatusOr<base::UniqueFd> OpenParent(const std::string& path) {
  const std::string parent(base::FolderOf(path));
  base::UniqueFd fd(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, fmt::format("open folder {}", Quote(parent)));
  return fd;
}

// Writes and syncs the temp file, and renames it to `path`; the caller removes it on failure.
base::Status ReplaceFile(const internal::WritePoints& points, int fd, const std::string& temp,
                         const std::string& path, std::string_view content, mode_t mode) {
  RETURN_IF_ERROR(WriteAll(fd, content));
  if (fchmod(fd, mode) != 0) return ErrnoError(errno, "chmod");
  if (fsync(fd) != 0) return ErrnoError(errno, "fsync");
  RETURN_IF_ERROR(points.temp.PassPoint());
  if (rename(temp.c_str(), path.c_str()) != 0) return ErrnoError(errno, "rename");
  return base::OkStatus();
}

// Writes a temp file, gives it its name and syncs the folder.
base::Status WriteAndSync(const internal::WritePoints& points, const std::string& path,
                          std::string_view content, mode_t mode) {
  const std::string context = fmt::format("write {}", Quote(path));
  ASSIGN_OR_RETURN(const base::UniqueFd folder, OpenParent(path));
  // The name is cut, so that it fits into NAME_MAX with the suffix.
  const std::string_view name = base::FileNameOf(path).substr(0, 200);
  std::string temp = fmt::format("{}/.{}{}XXXXXX", base::FolderOf(path), name, kTempMark);
  const base::UniqueFd fd(mkostemp(temp.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, context);
  if (base::Status status = ReplaceFile(points, fd.get(), temp, path, content, mode);
      !status.ok()) {
    unlink(temp.c_str());
    return base::Annotate(status, context);
  }
  if (fsync(folder.get()) != 0) return ErrnoError(errno, context + ": fsync of its folder");
  return base::OkStatus();
}

}  // namespace

base::Status WriteAll(int fd, std::string_view content) {
  const int error = base::WriteAll(fd, content);
  return error == 0 ? base::OkStatus() : ErrnoError(error, "write");
}

namespace internal {

base::Status Write(const WritePoints& points, const std::string& path, std::string_view content,
                   mode_t mode) {
  RETURN_IF_ERROR(points.before.PassPoint());
  base::Status written = WriteAndSync(points, path, content, mode);
  if (written.code() == base::StatusCode::kResourceExhausted && GiveUpReserve(path)) {
    written = WriteAndSync(points, path, content, mode);
  }
  RETURN_IF_ERROR(written);
  return points.after.PassPoint();
}

base::Status Remove(const RemovePoints& points, const std::string& path) {
  RETURN_IF_ERROR(points.before.PassPoint());
  const std::string context = fmt::format("remove {}", Quote(path));
  base::StatusOr<base::UniqueFd> folder = OpenParent(path);
  if (folder.status().code() == base::StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR_WITH(folder, context);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, context);
  if (fsync(folder->get()) != 0) return ErrnoError(errno, context + ": fsync of its folder");
  return points.after.PassPoint();
}

}  // namespace internal

bool IsTornWrite(std::string_view name) {
  return name.starts_with('.') && name.size() > kTempMark.size() + kRandom + 1 &&
         name.substr(name.size() - kTempMark.size() - kRandom).starts_with(kTempMark);
}

base::Status RemoveTornWrites(const std::string& folder) {
  return RemoveFilesWhere(folder, IsTornWrite);
}

base::Status RemoveTornWritesOf(const std::string& path) {
  // A temp file with a name that was cut stays, because it may belong to another file.
  const std::string prefix = fmt::format(".{}{}", base::FileNameOf(path), kTempMark);
  return RemoveFilesWhere(std::string(base::FolderOf(path)), [&prefix](std::string_view name) {
    return name.starts_with(prefix) && name.size() == prefix.size() + kRandom;
  });
}

base::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const std::string context = fmt::format("read {}", Quote(path));
  // O_NONBLOCK is set, because the path may be a FIFO, and its open must not wait for a writer.
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, context);
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, context);
  if (!S_ISREG(st.st_mode)) {
    return base::Error(base::StatusCode::kFailedPrecondition, "{}: not a regular file", context);
  }
  std::string content;
  const int error = base::ReadAll(fd.get(), max_bytes, content);
  if (error == 0) return content;
  if (error != EFBIG) return ErrnoError(error, context);
  return base::Error(base::StatusCode::kResourceExhausted, "{}: larger than {} bytes", context,
                     max_bytes);
}

base::Status MakeFolders(const std::string& path, mode_t mode) {
  const std::string context = fmt::format("make folder {}", Quote(path));
  bool made = false;
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    made = mkdir(part.c_str(), mode) == 0;
    if (!made && errno != EEXIST) return ErrnoError(errno, context);
    if (end == std::string::npos || end + 1 == path.size()) break;
  }
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, context);
  if (made && fchmod(fd.get(), mode) != 0) return ErrnoError(errno, context + ": chmod");
  return base::OkStatus();
}

base::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  const std::string context = fmt::format("list folder {}", Quote(path));
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return ErrnoError(errno, context);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(dir);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  const int error = errno;
  closedir(dir);
  if (error != 0) return ErrnoError(error, context);
  std::sort(names.begin(), names.end());
  return names;
}

base::StatusOr<base::UniqueFd> LockFile(const std::string& path) {
  const std::string context = fmt::format("lock {}", Quote(path));
  // A folder is locked itself, without a file in it.
  base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    fd.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  }
  if (!fd.valid()) return ErrnoError(errno, context);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError(errno, context);
    return base::Error(base::StatusCode::kFailedPrecondition, "{}: another process holds it",
                       context);
  }
  return fd;
}

}  // namespace berth::platform
