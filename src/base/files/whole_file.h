// Reads and writes whole files by system calls alone. The static programs use these functions, too,
// and children that share their parent's memory use WriteAll. src/platform/files/durable_file.h
// returns a Status, follows no symlinks and writes durably.
//
// Each function returns 0 or an errno.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace berth::base {

// Reads from the descriptor's position to the end. EFBIG: there are more than `most` bytes, and
// `content` has the first `most` of them. After another error `content` has the bytes that were
// read before it.
inline int ReadAll(int fd, size_t most, std::string& content) {
  content.clear();
  // Files of /proc say size 0, so the size is only a hint.
  struct stat st;
  const size_t size = fstat(fd, &st) == 0 ? static_cast<size_t>(st.st_size) : 0;
  const size_t chunk = std::max<size_t>(std::min(most, size) + 1, 4096);
  for (;;) {
    const size_t done = content.size();
    content.resize(done + chunk);
    const ssize_t n = read(fd, content.data() + done, chunk);
    const int error = n < 0 ? errno : 0;
    content.resize(done + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (error == EINTR) continue;
    if (error != 0) return error;
    if (content.size() > most) {
      content.resize(most);
      return EFBIG;
    }
    if (n == 0) return 0;
  }
}

// Reads the file at `path` in the same way. Follows symlinks, and waits for the writer of a FIFO.
inline int ReadWholeFile(const std::string& path, size_t most, std::string& content) {
  content.clear();
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() ? ReadAll(fd.get(), most, content) : errno;
}

// Writes all of `content` at the descriptor's position. Async-signal-safe.
inline int WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    content.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace berth::base
