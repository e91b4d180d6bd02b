// Implements RemoveTree of durable_file.h, which removes all that a pod left in a folder, but
// nothing that is mounted.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/folder_walk.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {
namespace {

using base::Quote;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Folders nested deeper than this are first moved up to the top, so that neither the stack nor the
// descriptors run out, however deep a pod nested them.
constexpr int kMaxDepth = 64;
constexpr size_t kBatch = 1024;
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NONBLOCK;

base::Status MountInsideError(const std::string& path) {
  return base::Error(base::StatusCode::kFailedPrecondition,
                     "remove {}: something is still mounted there", Quote(path));
}

class TreeRemover {
 public:
  TreeRemover(const std::string& path, int top, milliseconds within)
      : path_(path), top_(top), within_(within), deadline_(steady_clock::now() + within) {}

  // Empties the folder `fd`.
  base::Status EmptyFolder(int fd, int depth) {
    for (;;) {
      ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadNames(fd));
      if (names.empty()) return base::OkStatus();
      for (const std::string& name : names) {
        if (steady_clock::now() >= deadline_) return LateError();
        RETURN_IF_ERROR(RemoveEntry(fd, name, depth));
        ++removed_;
      }
    }
  }

 private:
  // Reads some of the names; none: the folder is empty. It does not read all at once, because there
  // may be millions.
  base::StatusOr<std::vector<std::string>> ReadNames(int fd) {
    std::vector<std::string> names;
    const int error = ForEachName(fd, kBatch, [&](const char* name) { names.emplace_back(name); });
    if (error != 0) return Failure(error, "list", "");
    return names;
  }

  base::Status RemoveEntry(int parent, const std::string& name, int depth) {
    if (unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return base::OkStatus();
    if (errno == EBUSY) return MountInsideError(path_);
    if (errno != EISDIR && errno != EPERM) return Failure(errno, "unlink", name);
    if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return base::OkStatus();
    if (errno == EBUSY) return MountInsideError(path_);
    if (errno != ENOTEMPTY && errno != EEXIST) return Failure(errno, "rmdir", name);
    if (depth >= kMaxDepth) return MoveUp(parent, name);
    const base::UniqueFd folder = OpenWithinMount(parent, name.c_str(), kFolder);
    if (!folder.valid())
      return errno == EXDEV ? MountInsideError(path_) : Failure(errno, "open", name);
    RETURN_IF_ERROR(EmptyFolder(folder.get(), depth + 1));
    if (unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      return base::OkStatus();
    }
    return Failure(errno, "rmdir", name);
  }

  base::Status MoveUp(int parent, const std::string& name) {
    for (;;) {
      const std::string fresh = fmt::format(".removed-{}", ++moved_);
      if (renameat2(parent, name.c_str(), top_, fresh.c_str(), RENAME_NOREPLACE) == 0) {
        return base::OkStatus();
      }
      if (errno == EBUSY || errno == EXDEV) return MountInsideError(path_);
      if (errno != EEXIST) return Failure(errno, "rename", name);
    }
  }

  base::Status LateError() const {
    return base::Error(
        base::StatusCode::kUnavailable,
        "remove {}: {} entries were removed in {} ms, and there are more: it has very many, or is "
        "filled as fast as it is emptied by a process that has it open",
        Quote(path_), removed_, within_.count());
  }

  base::Status Failure(int error, std::string_view call, const std::string& name) {
    return ErrnoError(error, fmt::format("remove {}: {} {}", Quote(path_), call, Quote(name)));
  }

  const std::string& path_;
  const int top_;
  const milliseconds within_;
  const steady_clock::time_point deadline_;
  uint64_t removed_ = 0;
  uint64_t moved_ = 0;
};

}  // namespace

base::Status RemoveTree(const std::string& path, std::chrono::milliseconds within) {
  if (path.empty() || path[0] != '/' || path.find_first_not_of('/') == std::string::npos) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "remove {}: not an absolute path of a folder", Quote(path));
  }
  // The table is read first: if there is a mount anywhere inside, nothing is removed.
  ASSIGN_OR_RETURN(const std::vector<MountEntry> table, NewMounter()->List());
  for (const MountEntry& entry : table) {
    if (entry.mount_point == path || entry.mount_point.starts_with(path + "/")) {
      return MountInsideError(path);
    }
  }
  const std::string whole(base::TrimSlashes(path));
  const std::string parent_path(base::FolderOf(whole));
  const base::UniqueFd parent(open(parent_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) {
    if (errno == ENOENT) return base::OkStatus();
    return ErrnoError(errno, fmt::format("remove {}", Quote(path)));
  }
  const std::string name = std::string(base::FileNameOf(whole));
  const base::UniqueFd top = OpenWithinMount(parent.get(), name.c_str(), kFolder);
  if (!top.valid()) {
    if (errno == ENOENT) return base::OkStatus();
    if (errno == EXDEV) return MountInsideError(path);
    return ErrnoError(errno, fmt::format("remove {}", Quote(path)));
  }
  RETURN_IF_ERROR(TreeRemover(path, top.get(), within).EmptyFolder(top.get(), 0));
  if (unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return ErrnoError(errno, fmt::format("remove {}", Quote(path)));
  }
  return base::OkStatus();
}

}  // namespace berth::platform
