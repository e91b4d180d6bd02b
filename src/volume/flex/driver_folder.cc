#include "volume/flex/driver_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "api/names.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::ErrnoError;

// The most names that are read from a folder, including those that begin with '.'.
constexpr size_t kMaxNames = size_t{1} << 20;

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The error of an entry that could not be opened.
Status WhyNotOpened(int error, std::string_view what) {
  if (error == EXDEV) {
    return Error(StatusCode::kFailedPrecondition, "{} is a mount point, which is not followed",
                 what);
  }
  return ErrnoError(error, fmt::format("open {}", what));
}

// Reads one driver's folder.
class Reader {
 public:
  Reader(const DriverLimits& limits, std::vector<DriverFile>& files)
      : limits_(limits), files_(files) {}

  // `fd` is the folder `path`, which is empty or ends with '/'.
  Status Read(int fd, const std::string& path, int depth) {
    if (depth > limits_.depth) {
      return Error(StatusCode::kResourceExhausted, "its folders are nested more than {} deep",
                   limits_.depth);
    }
    std::vector<std::string> names;
    const int error = platform::ForEachName(fd, kMaxNames, [&](const char* name) {
      if (name[0] != '.' && names.size() <= limits_.files) names.emplace_back(name);
    });
    if (error != 0) return ErrnoError(error, fmt::format("read {}", Quote(path)));
    for (const std::string& name : names) RETURN_IF_ERROR(Add(fd, path + name, name, depth));
    return base::OkStatus();
  }

 private:
  Status Add(int parent, std::string path, const std::string& name, int depth) {
    const base::UniqueFd fd = platform::OpenWithinMount(parent, name.c_str(), O_PATH);
    if (!fd.valid()) return errno == ENOENT ? base::OkStatus() : WhyNotOpened(errno, Quote(path));
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, Quote(path));
    DriverFile file{.path = std::move(path), .mode = st.st_mode & 0777u};
    if (S_ISREG(st.st_mode)) {
      file.identity = IdentityOf(st);
      bytes_ += file.identity.size;
    } else if (S_ISLNK(st.st_mode)) {
      file.kind = DriverFile::Kind::kLink;
      file.identity = IdentityOf(st);
      ASSIGN_OR_RETURN(file.target, TargetOf(fd.get(), file.path));
    } else if (S_ISDIR(st.st_mode)) {
      file.kind = DriverFile::Kind::kFolder;
    } else {
      return base::OkStatus();  // a socket, a FIFO: nothing to copy
    }
    if (files_.size() >= limits_.files || bytes_ > limits_.bytes) {
      return Error(StatusCode::kResourceExhausted, "it has more than {} files or {} bytes",
                   limits_.files, limits_.bytes);
    }
    files_.push_back(file);
    if (file.kind != DriverFile::Kind::kFolder) return base::OkStatus();
    return Read(fd.get(), file.path + "/", depth + 1);
  }

  // The target of a link, if it means the same wherever the copy of the folder is.
  static StatusOr<std::string> TargetOf(int fd, const std::string& path) {
    std::array<char, PATH_MAX> target;
    const ssize_t size = readlinkat(fd, "", target.data(), target.size());
    if (size < 0) return ErrnoError(errno, fmt::format("read link {}", Quote(path)));
    std::string text(target.data(), static_cast<size_t>(size));
    const std::string padded = fmt::format("/{}/", text);
    if (text.starts_with('/') || padded.find("/../") == std::string::npos) return text;
    return Error(StatusCode::kFailedPrecondition,
                 "{} is a link to {}: a link must have an absolute path, or a path without '..'",
                 Quote(path), Quote(text));
  }

  const DriverLimits& limits_;
  std::vector<DriverFile>& files_;
  uint64_t bytes_ = 0;
};

std::string_view ExecutableName(std::string_view driver) {
  return driver.substr(driver.find('/') + 1);
}

Status CheckExecutable(const DriverFolder& found) {
  const std::string_view name = ExecutableName(found.driver);
  const auto file = std::ranges::find(found.files, name, &DriverFile::path);
  if (file == found.files.end()) {
    return Error(StatusCode::kNotFound, "there is no executable {} in it", Quote(name));
  }
  if (file->kind != DriverFile::Kind::kFile) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} in it is {}: the driver's executable must be a file", Quote(name),
                 file->kind == DriverFile::Kind::kLink ? "a symbolic link" : "a folder");
  }
  if ((file->mode & 0111) == 0) {
    return Error(StatusCode::kFailedPrecondition, "{} in it is not executable (mode {:04o})",
                 Quote(name), file->mode);
  }
  if (file->identity.size == 0) {
    return Error(StatusCode::kFailedPrecondition, "{} in it is empty", Quote(name));
  }
  return base::OkStatus();
}

}  // namespace

FileIdentity IdentityOf(const struct stat& st) {
  return {.device = st.st_dev,
          .inode = st.st_ino,
          .size = static_cast<uint64_t>(st.st_size),
          .modified_ns = Nanoseconds(st.st_mtim),
          .changed_ns = Nanoseconds(st.st_ctim)};
}

const DriverFile& DriverFolder::executable() const {
  return *std::ranges::find(files, ExecutableName(driver), &DriverFile::path);
}

StatusOr<std::string> DriverOfFolder(std::string_view folder) {
  std::string driver(folder);
  std::ranges::replace(driver, '~', '/');
  // A name cannot contain a slash; if there are several '~' the check sees several slashes.
  if (Status named = api::CheckQualifiedName(driver); !named.ok()) {
    return Error(StatusCode::kInvalidArgument,
                 "the name is neither vendor~driver nor driver, so it is no qualified name: {}",
                 base::Message(named));
  }
  return driver;
}

std::string FolderOfDriver(std::string_view driver) {
  std::string folder(driver);
  std::ranges::replace(folder, '/', '~');
  return folder;
}

StatusOr<base::UniqueFd> OpenDrivers(const std::string& path) {
  base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, fmt::format("open driver folder {}", Quote(path)));
  return fd;
}

StatusOr<DriverFolder> ReadDriver(int drivers, const std::string& folder,
                                  const DriverLimits& limits) {
  DriverFolder found{.driver = {}, .folder = folder, .files = {}};
  ASSIGN_OR_RETURN(found.driver, DriverOfFolder(folder));
  const base::UniqueFd fd = platform::OpenWithinMount(drivers, folder.c_str(), O_PATH);
  if (!fd.valid()) return WhyNotOpened(errno, Quote(folder));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, Quote(folder));
  if (!S_ISDIR(st.st_mode)) {
    return Error(StatusCode::kFailedPrecondition, "{}, which is not followed",
                 S_ISLNK(st.st_mode) ? "it is a symbolic link" : "it is no folder");
  }
  RETURN_IF_ERROR(Reader(limits, found.files).Read(fd.get(), "", 1));
  std::ranges::sort(found.files, {}, &DriverFile::path);
  RETURN_IF_ERROR(CheckExecutable(found));
  return found;
}

StatusOr<DriverScan> ScanDrivers(int drivers, const DriverLimits& limits) {
  std::vector<std::string> folders;
  bool more = false;
  const int error =
      platform::ForEachEntry(drivers, kMaxNames, [&](const char* name, unsigned char type) {
        // Files beside the drivers' folders are ignored.
        const bool file = type != DT_DIR && type != DT_LNK && type != DT_UNKNOWN;
        if (name[0] == '.' || file) return;
        if (folders.size() < limits.folders) return folders.emplace_back(name), void();
        more = true;
      });
  if (error != 0) return ErrnoError(error, "read the driver folder");
  std::ranges::sort(folders);
  DriverScan scan;
  for (const std::string& folder : folders) {
    StatusOr<DriverFolder> found =
        scan.drivers.size() < limits.drivers
            ? ReadDriver(drivers, folder, limits)
            : Error(StatusCode::kResourceExhausted, "there are {} drivers already", limits.drivers);
    if (found.ok()) {
      scan.drivers.push_back(*std::move(found));
    } else {
      scan.left_out.emplace(folder, found.status());
    }
  }
  if (more) {
    scan.left_out.emplace(
        "", Error(StatusCode::kResourceExhausted,
                  "there are more than {} folders; the others are not read", limits.folders));
  }
  return scan;
}

}  // namespace berth::volume
