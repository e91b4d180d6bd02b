#include "platform/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace berth::platform {

base::UniqueFd OpenWithinMount(int parent, const char* name, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  return base::UniqueFd(static_cast<int>(syscall(SYS_openat2, parent, name, &how, sizeof(how))));
}

int ForEachName(int fd, size_t limit, const std::function<void(const char* name)>& visit) {
  return ForEachEntry(fd, limit, [&](const char* name, unsigned char) { visit(name); });
}

int ForEachEntry(int fd, size_t limit,
                 const std::function<void(const char* name, unsigned char type)>& visit) {
  // Opened anew, so that the position of `fd` stays and an O_PATH descriptor will do.
  const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return errno;
  DIR* dir = fdopendir(copy);
  if (dir == nullptr) {
    const int error = errno;
    close(copy);
    return error;
  }
  int error = 0;
  for (size_t seen = 0; limit == 0 || seen < limit;) {
    errno = 0;
    const dirent* entry = readdir(dir);
    if (entry == nullptr) {
      error = errno;
      break;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    ++seen;
    visit(entry->d_name, entry->d_type);
  }
  closedir(dir);
  return error;
}

}  // namespace berth::platform
