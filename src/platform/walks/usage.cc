#include "platform/walks/usage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"
#include "platform/mounts/probe_folder.h"
#include "platform/mounts/safe_path.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;

// Each level holds a descriptor. Entries that are nested deeper are not counted.
constexpr int kMaxUsageDepth = 1000;

class UsageCounter {
 public:
  explicit UsageCounter(std::chrono::steady_clock::time_point deadline) : deadline_(deadline) {}

  // False once the deadline passed.
  bool WalkFolder(int folder, int depth) {
    if (std::chrono::steady_clock::now() > deadline_) return false;
    bool in_time = true;
    ForEachName(folder, 0, [&](const char* name) {
      if (in_time) in_time = VisitEntry(folder, name, depth);
    });
    return in_time;
  }

  void CountEntry(const struct stat& st) {
    // Only files with several names can be counted twice.
    if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 && !linked_.insert(st.st_ino).second) return;
    usage_.bytes += static_cast<int64_t>(st.st_blocks) * 512;
    ++usage_.inodes;
  }

  const FolderUsage& usage() const { return usage_; }

 private:
  bool VisitEntry(int folder, const char* name, int depth) {
    const base::UniqueFd fd = OpenWithinMount(folder, name, O_PATH);
    struct stat st;
    if (!fd.valid() || fstat(fd.get(), &st) != 0) return true;
    CountEntry(st);
    return !S_ISDIR(st.st_mode) || depth >= kMaxUsageDepth || WalkFolder(fd.get(), depth + 1);
  }

  const std::chrono::steady_clock::time_point deadline_;
  std::set<ino_t> linked_;
  FolderUsage usage_;
};

}  // namespace

FileSystemUsage UsageFrom(const struct statfs& fs) {
  const auto block = static_cast<int64_t>(fs.f_frsize != 0 ? fs.f_frsize : fs.f_bsize);
  FileSystemUsage usage;
  usage.total_bytes = static_cast<int64_t>(fs.f_blocks) * block;
  usage.available_bytes = static_cast<int64_t>(fs.f_bavail) * block;
  usage.used_bytes = static_cast<int64_t>(fs.f_blocks - fs.f_bfree) * block;
  usage.total_inodes = static_cast<int64_t>(fs.f_files);
  usage.available_inodes = static_cast<int64_t>(fs.f_ffree);
  usage.used_inodes = usage.total_inodes - usage.available_inodes;
  return usage;
}

base::StatusOr<FileSystemUsage> GetFileSystemUsage(const std::string& path,
                                                   std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const struct statfs fs,
                   AskChild<struct statfs>(fmt::format("usage of {}", Quote(path)), timeout,
                                           [path](struct statfs& fs) {
                                             return statfs(path.c_str(), &fs) == 0 ? 0 : errno;
                                           }));
  return UsageFrom(fs);
}

base::StatusOr<FolderUsage> GetFolderUsage(const std::string& path,
                                           std::chrono::steady_clock::time_point deadline) {
  RETURN_IF_ERROR(ProbeFolder(path, std::chrono::seconds(5)));
  ASSIGN_OR_RETURN(const base::UniqueFd fd, OpenFolder(path));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, fmt::format("stat {}", Quote(path)));
  UsageCounter counter(deadline);
  counter.CountEntry(st);
  if (counter.WalkFolder(fd.get(), 0)) return counter.usage();
  return base::Error(StatusCode::kDeadlineExceeded, "usage of {}: not counted in time",
                     Quote(path));
}

}  // namespace berth::platform
