#include "platform/walks/relabel.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"
#include "platform/walks/long_work.h"
#include "platform/walks/parallel_walk.h"

namespace berth::platform {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::UniqueFd;

constexpr const char* kLabel = "security.selinux";
constexpr size_t kLongestLabel = 4096;

// The path of a descriptor that only this thread may have (long_work.h). The extended attributes of
// what it leads to can be read and set also where the descriptor itself was opened with O_PATH, and
// those of a symlink, too.
std::string LabelPath(const UniqueFd& fd) {
  return fmt::format("/proc/thread-self/fd/{}", fd.get());
}

class Labeller {
 public:
  // The arguments are borrowed from the stack of the thread that does the work.
  Labeller(const std::string& root, const std::string& label) : root_(root), label_(label) {}

  // Handles one entry of a folder. A folder is kept open in `*open`, for the walk of its content.
  Status VisitEntry(int folder, const char* name, unsigned char type, UniqueFd* open) const {
    // O_PATH opens no device and waits for no FIFO.
    UniqueFd fd = OpenWithinMount(folder, name, O_PATH);
    if (!fd.valid()) {
      // It was removed meanwhile, or another mount is there, which does not belong to this volume.
      const int error = errno;
      if (error == ENOENT || error == EXDEV) return base::OkStatus();
      return ErrnoError(error, fmt::format("relabel {}: open {}", Quote(root_), Quote(name)));
    }
    RETURN_IF_ERROR(SetLabel(fd));
    if (type != DT_DIR && type != DT_UNKNOWN) return base::OkStatus();
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return Failure(errno, "stat", fd);
    if (S_ISDIR(st.st_mode)) *open = std::move(fd);
    return base::OkStatus();
  }

  Status SetLabel(const UniqueFd& fd) const {
    const std::string path = LabelPath(fd);
    if (HasLabel(path)) return base::OkStatus();
    // With the zero at its end, as libselinux writes it.
    if (setxattr(path.c_str(), kLabel, label_.c_str(), label_.size() + 1, 0) == 0) {
      return base::OkStatus();
    }
    const int error = errno;
    if (error == ENOENT) return base::OkStatus();  // it was removed meanwhile
    if (error != EOPNOTSUPP) return Failure(error, "set the SELinux label of", fd);
    return Error(StatusCode::kFailedPrecondition,
                 "relabel {}: its files cannot have SELinux labels of their own, because its file "
                 "system keeps none or was mounted with one for all files",
                 Quote(root_));
  }

 private:
  bool HasLabel(const std::string& path) const {
    std::array<char, kLongestLabel + 1> text;
    const ssize_t size = getxattr(path.c_str(), kLabel, text.data(), text.size());
    if (size < 0) return false;
    std::string_view label(text.data(), static_cast<size_t>(size));
    if (label.ends_with('\0')) label.remove_suffix(1);
    return label == label_;
  }

  // Names the file by its path, which begins at the root of its mount if that is in no namespace.
  Status Failure(int error, std::string_view call, const UniqueFd& fd) const {
    char path[PATH_MAX];
    const ssize_t size = readlink(LabelPath(fd).c_str(), path, sizeof(path));
    const std::string_view file(path, size < 0 ? 0 : static_cast<size_t>(size));
    return ErrnoError(error, fmt::format("relabel {}: {} {}", Quote(root_), call, Quote(file)));
  }

  const std::string& root_;
  const std::string& label_;
};

// Runs on a thread that may be given up (long_work.h).
Status LabelTree(int root, const std::string& name, const std::string& label, LongWork& work) {
  const UniqueFd folder(openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    const int error = errno;
    return ErrnoError(error, fmt::format("relabel {}: open it", Quote(name)));
  }
  const Labeller labeller(name, label);
  RETURN_IF_ERROR(labeller.SetLabel(folder));
  return WalkInParallel(
      folder.get(), {.name = name,
                     .visit =
                         [&](int parent, const char* entry, unsigned char type, UniqueFd* open) {
                           RETURN_IF_ERROR(labeller.VisitEntry(parent, entry, type, open));
                           work.CountOne();
                           return base::OkStatus();
                         },
                     .cancelled = [&work] { return work.cancelled(); }});
}

}  // namespace

Status RelabelFiles(int root, const std::string& name, const RelabelOptions& options) {
  return RunLongWork(root,
                     {.what = fmt::format("relabel {}", Quote(name)),
                      .patience = options.patience,
                      .cancelled = options.cancelled,
                      .progress = options.progress,
                      .progress_interval = options.progress_interval},
                     [name, label = options.label](int folder, LongWork& work) {
                       return LabelTree(folder, name, label, work);
                     });
}

}  // namespace berth::platform
