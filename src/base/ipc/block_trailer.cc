#include "base/ipc/block_trailer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/ipc/block_call.h"
#include "base/unique_fd.h"

namespace berth::base::ipc::block {

Result<Message> ReadTrailer(const std::string& executable) {
  const UniqueFd fd(open(executable.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    return SystemFailure("open '" + executable + "'", errno);
  }
  char end[4 + 8];
  static_assert(sizeof(end) == sizeof(uint32_t) + kTrailerMagic.size());
  const Failure none{Problem::kBroken,
                     "this driver does not say where its agent is: it is installed by 'berth "
                     "block-agent'"};
  if (info.st_size < static_cast<off_t>(sizeof(end)) ||
      pread(fd.get(), end, sizeof(end), info.st_size - static_cast<off_t>(sizeof(end))) !=
          static_cast<ssize_t>(sizeof(end)) ||
      std::string_view(end + 4, 8) != kTrailerMagic) {
    return none;
  }
  uint32_t length = 0;
  memcpy(&length, end, sizeof(length));
  const off_t begin = info.st_size - static_cast<off_t>(sizeof(end)) - static_cast<off_t>(length);
  if (length > kLargestTrailer || begin < 0) return none;
  std::string text(length, '\0');
  if (pread(fd.get(), text.data(), length, begin) != static_cast<ssize_t>(length)) return none;
  return ReadJson(text);
}

}  // namespace berth::base::ipc::block
