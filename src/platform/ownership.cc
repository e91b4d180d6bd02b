#include "platform/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/folder_walk.h"
#include "platform/safe_path.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;
using base::UniqueFd;

// Each level holds a descriptor.
constexpr int kMaxDepth = 1000;

class GroupSetter {
 public:
  GroupSetter(const std::string& root, const FsGroupOptions& options)
      : root_(root), options_(options) {}

  // The content of a folder, then what is below it.
  base::Status Walk(int folder, int depth) {
    if (options_.cancelled && options_.cancelled()) {
      return base::Error(StatusCode::kCancelled, "set fsGroup on {}: cancelled", Quote(root_));
    }
    if (depth > kMaxDepth) {
      return base::Error(StatusCode::kResourceExhausted,
                         "set fsGroup on {}: folders are nested more than {} deep", Quote(root_),
                         kMaxDepth);
    }
    base::Status failure;
    const int error = ForEachName(folder, 0, [&](const char* name) {
      if (failure.ok()) failure = Visit(folder, name, depth);
    });
    if (error != 0) return Failure(error, "list a folder");
    return failure;
  }

  base::Status Apply(const UniqueFd& fd, const struct stat& st) {
    const mode_t wanted =
        S_ISLNK(st.st_mode) ? st.st_mode & 07777 : (st.st_mode & 07777) | Mask(st);
    const bool regroup = st.st_gid != options_.group;
    if (regroup &&
        fchownat(fd.get(), "", static_cast<uid_t>(-1), options_.group, AT_EMPTY_PATH) != 0) {
      return Failure(errno, "chown");
    }
    // A chown drops setuid and setgid, so the mode is set again after one. By the descriptor's
    // name: fchmod refuses O_PATH, and what the path named may be another file by now.
    const bool same = (st.st_mode & 07777) == wanted;
    const bool special = (wanted & (S_ISUID | S_ISGID)) != 0;
    if (S_ISLNK(st.st_mode) || (same && !(regroup && special))) return base::OkStatus();
    if (chmod(ProcPath(fd).c_str(), wanted) != 0) return Failure(errno, "chmod");
    return base::OkStatus();
  }

  bool Matches(const struct stat& st) const {
    const mode_t mask = Mask(st);
    return st.st_gid == options_.group && (st.st_mode & mask) == mask;
  }

  base::Status Failure(int error, std::string_view call) const {
    return ErrnoError(error, fmt::format("set fsGroup on {}: {}", Quote(root_), call));
  }

 private:
  mode_t Mask(const struct stat& st) const {
    mode_t mask = options_.read_only ? 0440 : 0660;
    if (S_ISDIR(st.st_mode)) mask |= S_ISGID | 0110;
    return mask;
  }

  base::Status Visit(int folder, const char* name, int depth) {
    // O_PATH: no device is opened and no FIFO waited for.
    const UniqueFd fd = OpenWithinMount(folder, name, O_PATH);
    if (!fd.valid()) {
      // Removed meanwhile, or another mount, which is not this volume's.
      if (errno == ENOENT || errno == EXDEV) return base::OkStatus();
      return Failure(errno, fmt::format("open {}", Quote(name)));
    }
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return Failure(errno, fmt::format("stat {}", Quote(name)));
    if (S_ISDIR(st.st_mode)) RETURN_IF_ERROR(Walk(fd.get(), depth + 1));
    return Apply(fd, st);
  }

  const std::string& root_;
  const FsGroupOptions& options_;
};

}  // namespace

base::Status ApplyFsGroup(const std::string& root, const FsGroupOptions& options) {
  GroupSetter setter(root, options);
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFolder(root));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return setter.Failure(errno, "stat");
  if (options.only_on_root_mismatch && setter.Matches(st)) return base::OkStatus();
  RETURN_IF_ERROR(setter.Walk(fd.get(), 0));
  return setter.Apply(fd, st);
}

}  // namespace berth::platform
