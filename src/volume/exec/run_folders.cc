#include "volume/exec/run_folders.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/files/whole_file.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::volume {
namespace {

using base::Status;
using base::StatusOr;

constexpr char kOptions[] = "size=64m,nr_inodes=16k,mode=0700";
constexpr unsigned kTmpfs = 0x01021994;  // TMPFS_MAGIC

bool IsOnTmpfs(const std::string& folder) {
  struct statfs kind = {};
  return statfs(folder.c_str(), &kind) == 0 && static_cast<unsigned>(kind.f_type) == kTmpfs;
}

// Whether `folder` is a tmpfs of its own and not a part of its parent's.
bool IsOwnTmpfs(const std::string& folder, const std::string& parent) {
  struct stat own = {}, above = {};
  return stat(folder.c_str(), &own) == 0 && stat(parent.c_str(), &above) == 0 &&
         own.st_dev != above.st_dev && IsOnTmpfs(folder);
}

// Whether a run's folder belongs to another living process, because several may use one kubelet
// folder.
bool IsOfAnotherProcess(const std::string& name) {
  pid_t pid = 0;
  std::from_chars(name.data(), name.data() + name.size(), pid);
  return pid > 0 && pid != getpid() && kill(pid, 0) == 0;
}

}  // namespace

RunFolder::~RunFolder() {
  // Most runs have only these files; they are removed without listing the folder.
  for (const char* stream : {"in", "out", "err", "began"}) unlink(PathOf(stream).c_str());
  if (rmdir(path_.c_str()) == 0) return;
  if (const Status removed = platform::RemoveTree(path_); !removed.ok()) {
    LOG_WARNING("{}", base::ToString(removed));
  }
}

std::string RunFolder::PathOf(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

Status RunFolder::Write(std::string_view name, std::string_view content) const {
  const std::string path = PathOf(name);
  const std::string what = fmt::format("write '{}'", path);
  const base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return platform::ErrnoError(errno, what);
  const int error = base::WriteAll(fd.get(), content);
  return error == 0 ? base::OkStatus() : platform::ErrnoError(error, what);
}

std::string RunFolder::Read(std::string_view name, size_t max_bytes) const {
  const base::UniqueFd fd(
      open(PathOf(name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // The container may have put a FIFO or a device there.
  struct stat stat = {};
  if (!fd.valid() || fstat(fd.get(), &stat) != 0 || !S_ISREG(stat.st_mode)) return "";
  std::string text;
  base::ReadAll(fd.get(), max_bytes, text);
  return text;
}

StatusOr<std::unique_ptr<RunFolder>> RunFolders::MakeFolder() {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    bool on_tmpfs = false;
    {
      base::MutexLock lock(mutex_);
      RETURN_IF_ERROR(MountIfMissing());
      was_tmpfs_ = was_tmpfs_ || IsOwnTmpfs(paths_.PluginRuns(), paths_.root());
      on_tmpfs = was_tmpfs_;
    }
    auto folder = std::make_unique<RunFolder>(
        fmt::format("{}/{}.{}", paths_.PluginRuns(), getpid(), base::NewUuid()));
    const int error = mkdir(folder->path().c_str(), 0700) == 0 ? 0 : errno;
    // Another process that ends may have removed the tmpfs meanwhile. A secret must not come onto
    // the disk below it.
    if (error == 0 && (!on_tmpfs || IsOnTmpfs(folder->path()))) return folder;
    if (attempt == kAttempts || (error != 0 && error != ENOENT)) {
      return platform::ErrnoError(error == 0 ? ENOENT : error,
                                  fmt::format("make the folder '{}'", folder->path()));
    }
  }
}

Status RunFolders::MountIfMissing() {
  const std::string folder = paths_.PluginRuns();
  if (!IsOwnTmpfs(folder, paths_.root())) {
    RETURN_IF_ERROR(platform::MakeFolders(folder, 0700));
    platform::MountRequest request{
        .source = "berth-runs", .target = folder, .fs_type = "tmpfs", .options = {}};
    // noswap, because swap is on a disk. Kernels before 6.4 do not know the option.
    request.options = {kOptions, "nosuid", "nodev", "noswap"};
    Status mounted = mounter_.Mount(request);
    if (!mounted.ok()) {
      request.options.pop_back();
      mounted = mounter_.Mount(request);
    }
    RETURN_IF_ERROR_WITH(mounted, "the folder for runs in pods");
  } else if (!cleaned_) {
    // These are the folders of an agent that was killed.
    ASSIGN_OR_RETURN(const auto names, platform::ListFolder(folder));
    for (const std::string& name : names) {
      if (IsOfAnotherProcess(name)) continue;
      RETURN_IF_ERROR(platform::RemoveTree(fmt::format("{}/{}", folder, name)));
    }
  }
  cleaned_ = true;
  return base::OkStatus();
}

void RunFolders::Close() {
  base::MutexLock lock(mutex_);
  const std::string folder = paths_.PluginRuns();
  if (!IsOwnTmpfs(folder, paths_.root())) return;
  const auto runs = platform::ListFolder(folder);
  if (!runs.ok() || std::any_of(runs->begin(), runs->end(), IsOfAnotherProcess)) return;
  if (const Status gone = mounter_.UnmountLazy(folder); !gone.ok()) {
    LOG_WARNING("{}", base::ToString(gone));
    return;
  }
  rmdir(folder.c_str());
}

}  // namespace berth::volume
