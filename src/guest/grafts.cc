#include "guest/grafts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/ipc/guest_call.h"
#include "base/unique_fd.h"
#include "guest/control.h"
#include "platform/mounts/beneath.h"

namespace berth::guest {

using base::UniqueFd;
using base::ipc::Message;

namespace {

constexpr const char* kGraftFolder = "/grafts";
constexpr int kStatFlags = AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

std::string FolderOf(const std::string& volume) { return std::string(kGraftFolder) + "/" + volume; }

Message DescribeFailure(const std::string& path, int error) {
  if (error == EXDEV || error == ELOOP) {
    return ErrorReply("PERMISSION_DENIED",
                      "subPath '" + path + "' leads out of its volume, or through a magic link");
  }
  return FailureReply("open subPath '" + path + "' in the guest", error);
}

// Unmounts all that is mounted at `place`. 0 or an errno.
int Clear(const std::string& place) {
  while (IsMounted(place)) {
    if (umount2(place.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) return errno;
  }
  return 0;
}

// Makes the folder or the empty file on which a graft is mounted. 0 or an errno.
int MakePlace(const std::string& place, bool folder) {
  if (folder) {
    unlink(place.c_str());
    return mkdir(place.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
  }
  rmdir(place.c_str());
  const UniqueFd made(open(place.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  return made.valid() ? 0 : errno;
}

bool IsSameFile(const struct statx& one, const struct statx& other) {
  return one.stx_ino == other.stx_ino && one.stx_dev_major == other.stx_dev_major &&
         one.stx_dev_minor == other.stx_dev_minor;
}

// Opens the path, and makes its folders if nothing is there. A descriptor, or a negative errno.
int OpenPart(int root, const std::string& path, const std::vector<platform::PathLevel>& levels) {
  const int found = platform::OpenBelow(root, path.c_str(), O_PATH);
  if (found != -ENOENT) return found;
  struct statx mode = {};
  if (statx(root, "", AT_EMPTY_PATH | kStatFlags, STATX_MODE, &mode) != 0) return -errno;
  return platform::MakeLevelsBelow(root, levels, mode.stx_mode & 07777);
}

}  // namespace

std::string GraftPlace(const std::string& volume, size_t number) {
  return FolderOf(volume) + "/" + std::to_string(number);
}

bool IsMounted(const std::string& path) {
  struct statx found = {};
  return statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | kStatFlags, STATX_TYPE, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Message MakeGraft(const std::string& root, const std::string& path, const std::string& place) {
  const std::optional<std::vector<platform::PathLevel>> levels = platform::SplitPath(path);
  if (!levels.has_value() || levels->empty()) return DescribeFailure(path, EXDEV);
  const UniqueFd volume(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!volume.valid()) return FailureReply("open the volume in the guest", errno);
  const int opened = OpenPart(volume.get(), path, *levels);
  if (opened < 0) return DescribeFailure(path, -opened);
  const UniqueFd part(opened);
  struct statx found = {};
  if (statx(part.get(), "", AT_EMPTY_PATH | kStatFlags, STATX_TYPE | STATX_INO, &found) != 0) {
    return DescribeFailure(path, errno);
  }
  if (!S_ISDIR(found.stx_mode) && !S_ISREG(found.stx_mode) && !S_ISSOCK(found.stx_mode) &&
      !S_ISFIFO(found.stx_mode)) {
    return ErrorReply("PERMISSION_DENIED", "subPath '" + path + "' is a device, or a symlink");
  }
  const Message done = Message().Set(base::ipc::guest::kPlace, place);
  struct statx there = {};
  if (IsMounted(place) &&
      statx(AT_FDCWD, place.c_str(), AT_SYMLINK_NOFOLLOW | kStatFlags, STATX_INO, &there) == 0 &&
      IsSameFile(found, there)) {
    return done;
  }
  if (const int error = Clear(place); error != 0) {
    return FailureReply("unmount what was at subPath '" + path + "'", error);
  }
  mkdir(kGraftFolder, 0700);
  mkdir(place.substr(0, place.rfind('/')).c_str(), 0700);
  if (const int error = MakePlace(place, S_ISDIR(found.stx_mode)); error != 0) {
    return FailureReply("make the place of subPath '" + path + "'", error);
  }
  const UniqueFd tree(
      open_tree(part.get(), "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree.valid() ||
      move_mount(tree.get(), "", AT_FDCWD, place.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return FailureReply("mount subPath '" + path + "' in the guest", errno);
  }
  return done;
}

int RemoveGrafts(const std::string& volume) {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  const std::string path = FolderOf(volume);
  std::vector<std::string> places;
  {
    const std::unique_ptr<DIR, Close> folder(opendir(path.c_str()));
    if (folder == nullptr) return errno == ENOENT ? 0 : errno;
    while (const dirent* entry = readdir(folder.get())) {
      if (entry->d_name[0] != '.') places.push_back(path + "/" + entry->d_name);
    }
  }
  for (const std::string& place : places) {
    if (const int error = Clear(place); error != 0) return error;
    if (unlink(place.c_str()) != 0 && rmdir(place.c_str()) != 0) return errno;
  }
  return rmdir(path.c_str()) == 0 ? 0 : errno;
}

}  // namespace berth::guest
