// The part of ImageFolder that finds and opens images, and says who has them locked.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "block/images/image.h"
#include "block/images/image_folder.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;

base::Status ImageFolder::NoImageError(const std::string& image) const {
  return Error(StatusCode::kNotFound, "image {} does not exist in {}", Quote(image),
               Quote(folder_));
}

base::StatusOr<ImageFolder::Located> ImageFolder::Locate(const std::string& image) const {
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(const ImageRecord record, ReadReady(image));
  RETURN_IF_ERROR(
      OpenImage(PathOf(image), record.AsPoolRecord(), place, O_RDONLY, AdviseOnCopies()));
  return ToLocated(record, place.device);
}

base::StatusOr<ImageFolder::Located> ImageFolder::FindRecorded(const std::string& image,
                                                               dev_t device) const {
  ASSIGN_OR_RETURN(const ImageRecord record, ReadReady(image));
  return ToLocated(record, device);
}

ImageFolder::Located ImageFolder::ToLocated(const ImageRecord& record, dev_t device) const {
  return {.info = record.ToInfo(),
          .path = PathOf(record.name),
          .identity = {.dev = device, .ino = record.identity.inode},
          .least_bytes = LeastBytes(record.AsPoolRecord())};
}

base::StatusOr<base::UniqueFd> ImageFolder::Open(const Located& image, int flags) const {
  return OpenImageFile(image, flags, std::nullopt);
}

base::StatusOr<base::UniqueFd> ImageFolder::OpenLocked(const Located& image, int flags,
                                                       ImageLock lock) const {
  return OpenImageFile(image, flags, lock);
}

base::StatusOr<base::UniqueFd> ImageFolder::OpenImageFile(const Located& image, int flags,
                                                          std::optional<ImageLock> lock) const {
  const std::string context = fmt::format("open image {}", Quote(image.path));
  // The lock belongs to the open file, so a child process can take it for this process.
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild(context, kAnswerTime, [path = image.path, flags, lock] {
                     const int fd = open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
                     if (fd < 0) return -errno;
                     const int error = lock.has_value() ? LockImage(fd, *lock) : 0;
                     return error == 0 ? fd : -error;
                   }));
  if (opened.error == EAGAIN) {
    return Error(StatusCode::kFailedPrecondition, "image {} is locked by another holder: {}",
                 Quote(image.info.name), DescribeHolders(image));
  }
  if (opened.error == ENOENT) return NoImageError(image.info.name);
  if (opened.error != 0) return platform::ErrnoError(opened.error, context);
  // A file that was deleted before it was locked has no name any more.
  struct stat st;
  if (fstat(opened.fd.get(), &st) != 0) return platform::ErrnoError(errno, context);
  if (st.st_nlink == 0) return NoImageError(image.info.name);
  if (st.st_dev != image.identity.dev || st.st_ino != image.identity.ino) {
    return Error(StatusCode::kDataLoss, "image {} became another file (inode {}, was {})",
                 Quote(image.path), st.st_ino, image.identity.ino);
  }
  RETURN_IF_ERROR(CheckLength(image.path, st.st_size, image.least_bytes));
  return std::move(opened.fd);
}

base::StatusOr<bool> ImageFolder::HasLock(const std::string& image) const {
  ASSIGN_OR_RETURN(const Located located, Locate(image));
  ASSIGN_OR_RETURN(const base::UniqueFd fd, Open(located, O_RDONLY));
  // A server of files that no longer answers would block a thread for ever.
  return platform::AskChild<bool>(
      fmt::format("read the locks of image {}", Quote(located.path)), kAnswerTime,
      [file = fd.get()](bool& locked) { return ReadImageLock(file, locked); }, {fd.get()});
}

void ImageFolder::NoteHolder(const std::string& image, const std::string& holder) {
  const std::string path = SidePathOf(image, ".holder");
  const base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const int error = fd.valid() ? base::WriteAll(fd.get(), holder) : errno;
  if (error != 0)
    LOG_DEBUG("note the holder of image {}: {}", Quote(image), strerrordesc_np(error));
}

std::string ImageFolder::ReadHolder(const std::string& image) const {
  return platform::ReadFile(SidePathOf(image, ".holder"), 4096).value_or("");
}

std::string ImageFolder::DescribeHolders(const Located& image) const {
  const std::string deleted = image.path + " (deleted)";
  const std::string name = "/" + image.info.name;
  std::vector<std::string> known;
  const auto loops =
      platform::ListLoopEntries([&](std::string_view path) { return path.ends_with(name); });
  if (loops.ok()) {
    for (const platform::LoopEntry& entry : *loops) {
      if (entry.loop.backing == image.identity) known.push_back(entry.loop.path + " shows it");
    }
  }
  const std::string noted = ReadHolder(image.info.name);
  if (!noted.empty()) known.push_back("last mapped by " + noted);
  if (known.empty()) return "a node or process that is not known here";
  return fmt::format("{}", fmt::join(known, "; "));
}

}  // namespace berth::block
