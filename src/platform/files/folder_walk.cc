#include "platform/files/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
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
  // The folder is opened again, so that the position of `fd` does not move and an O_PATH descriptor
  // is enough.
  const base::UniqueFd folder(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return errno;
  constexpr size_t kRoom = 32 * 1024;
  const auto entries = std::make_unique_for_overwrite<std::byte[]>(kRoom);
  for (size_t seen = 0;;) {
    const ssize_t size = getdents64(folder.get(), entries.get(), kRoom);
    if (size <= 0) return size == 0 ? 0 : errno;
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.get() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      visit(entry->d_name, entry->d_type);
      if (++seen == limit) return 0;
    }
  }
}

}  // namespace berth::platform
