#include "platform/devices/loop_table.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>

#include "base/shared_read.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

constexpr uint64_t kSector = 512;

// The folder of all loop devices, the free ones as well, of which there may be hundreds. It is
// faster than /sys/block, whose names are symlinks that lead here.
constexpr char kDevices[] = "/sys/devices/virtual/block";

// Any error but these, such as EMFILE, says nothing about the device.
bool IsGoneError(int error) { return error == ENOENT || error == ENXIO || error == ENODEV; }

// Reads a file of one line below `folder`; "" if the device or its image is gone. Any other
// failure, such as a lack of descriptors, is an error, because it says nothing about the device.
base::StatusOr<std::string> ReadAttributeIn(int folder, const std::string& path) {
  // The kernel returns a whole attribute, at most a page, in one read.
  std::array<char, 4096> text;
  const base::UniqueFd fd(openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t n = fd.valid() ? read(fd.get(), text.data(), text.size()) : -1;
  if (n < 0) {
    if (IsGoneError(errno)) return std::string();
    return ErrnoError(errno, fmt::format("read attribute {} of a block device", path));
  }
  std::string_view line(text.data(), static_cast<size_t>(n));
  if (line.ends_with('\n')) line.remove_suffix(1);
  return std::string(line);
}

base::StatusOr<std::string> ReadAttribute(std::string_view device, std::string_view name) {
  return ReadAttributeIn(AT_FDCWD, fmt::format("/sys/block/{}/{}", device, name));
}

base::StatusOr<uint64_t> ReadNumberAttribute(std::string_view device, std::string_view name) {
  ASSIGN_OR_RETURN(const std::string text, ReadAttribute(device, name));
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

base::StatusOr<dev_t> ReadDeviceNumber(std::string_view device) {
  ASSIGN_OR_RETURN(const std::string text, ReadAttribute(device, "dev"));
  const size_t colon = text.find(':');
  unsigned major_number = 0;
  unsigned minor_number = 0;
  if (colon == std::string::npos) return dev_t{0};
  std::from_chars(text.data(), text.data() + colon, major_number);
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), minor_number);
  return makedev(major_number, minor_number);
}

// Describes a device by its attributes in /sys. `image_path` is empty if no file is attached to it
// by now.
base::StatusOr<LoopEntry> DescribeDevice(const std::string& name) {
  LoopEntry entry;
  LoopDevice& loop = entry.loop;
  // The number is read before the path: so it is not that of a later attachment.
  ASSIGN_OR_RETURN(entry.sequence, ReadNumberAttribute(name, "diskseq"));
  ASSIGN_OR_RETURN(entry.image_path, ReadAttribute(name, "loop/backing_file"));
  loop.path = "/dev/" + name;
  ASSIGN_OR_RETURN(loop.device, ReadDeviceNumber(name));
  ASSIGN_OR_RETURN(const uint64_t read_only, ReadNumberAttribute(name, "ro"));
  ASSIGN_OR_RETURN(const uint64_t direct_io, ReadNumberAttribute(name, "loop/dio"));
  ASSIGN_OR_RETURN(const uint64_t block_size,
                   ReadNumberAttribute(name, "queue/logical_block_size"));
  ASSIGN_OR_RETURN(const uint64_t sectors, ReadNumberAttribute(name, "size"));
  ASSIGN_OR_RETURN(entry.size_limit, ReadNumberAttribute(name, "loop/sizelimit"));
  ASSIGN_OR_RETURN(const uint64_t autoclear, ReadNumberAttribute(name, "loop/autoclear"));
  loop.read_only = read_only != 0;
  loop.direct_io = direct_io != 0;
  loop.block_size = static_cast<uint32_t>(block_size);
  loop.size = sectors * kSector;
  entry.autoclear = autoclear != 0;
  return entry;
}

struct AttachedImage {
  std::string device;  // "loop3"
  std::string path;    // as LoopEntry::image_path
};

base::StatusOr<std::vector<AttachedImage>> ListAttachedImages() {
  const base::UniqueFd folder(open(kDevices, O_PATH | O_DIRECTORY | O_CLOEXEC));
  // The kernel makes the folder with its first virtual disk.
  if (!folder.valid() && errno == ENOENT) return std::vector<AttachedImage>();
  if (!folder.valid()) return ErrnoError(errno, fmt::format("open {}", kDevices));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(kDevices));
  std::vector<AttachedImage> attached;
  for (const std::string& name : names) {
    if (!name.starts_with("loop")) continue;
    ASSIGN_OR_RETURN(const bool has_image, HasImage(name));
    if (!has_image) continue;
    ASSIGN_OR_RETURN(std::string image, ReadAttributeIn(folder.get(), name + "/loop/backing_file"));
    if (!image.empty()) attached.push_back({name, std::move(image)});
  }
  return attached;
}

struct Answer {
  int error = EAGAIN;
  uint64_t dev = 0;
  uint64_t ino = 0;
  char label[LO_NAME_SIZE] = {};
};

// Asks the device for its image, by system calls alone.
void AskDevice(const char* path, Answer& answer) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    answer.error = errno;
    return;
  }
  loop_info64 info = {};
  answer.error = ioctl(fd, LOOP_GET_STATUS64, &info) == 0 ? 0 : errno;
  answer.dev = info.lo_device;
  answer.ino = info.lo_inode;
  memcpy(answer.label, info.lo_file_name, LO_NAME_SIZE);
  close(fd);
}

base::StatusOr<std::vector<Answer>> AskDevices(std::span<const LoopEntry> entries,
                                               std::chrono::milliseconds timeout) {
  std::vector<std::string> paths;
  for (const LoopEntry& entry : entries) paths.push_back(entry.loop.path);
  return AskChildForEach<Answer>("look at loop devices", timeout, paths.size(),
                                 [paths](std::span<Answer> answers) {
                                   for (size_t i = 0; i < answers.size(); ++i) {
                                     AskDevice(paths[i].c_str(), answers[i]);
                                   }
                                   return 0;
                                 });
}

void ApplyAnswer(const Answer& answer, LoopEntry& entry) {
  entry.answered = answer.error == 0;
  if (!entry.answered) return;
  entry.loop.backing = {.dev = static_cast<dev_t>(answer.dev),
                        .ino = static_cast<ino_t>(answer.ino)};
  entry.label.assign(answer.label, strnlen(answer.label, LO_NAME_SIZE));
}

}  // namespace

base::StatusOr<std::vector<LoopEntry>> ListLoopEntries(
    const std::function<bool(std::string_view image_path)>& wanted,
    std::chrono::milliseconds timeout) {
  static auto& shared = *new base::SharedRead<base::StatusOr<std::vector<AttachedImage>>>();
  const auto images = shared.Get(ListAttachedImages);
  RETURN_IF_ERROR(images->status());
  std::vector<LoopEntry> found;
  for (const auto& [name, image] : **images) {
    if (wanted && !wanted(image)) continue;
    ASSIGN_OR_RETURN(LoopEntry entry, DescribeDevice(name));
    // It may have been detached, and another image attached, since it was found.
    if (entry.image_path.empty() || (wanted && !wanted(entry.image_path))) continue;
    // If /dev is not a devtmpfs, as in a container, a device that the kernel made has no node yet.
    if (access(entry.loop.path.c_str(), F_OK) != 0) {
      mknod(entry.loop.path.c_str(), S_IFBLK | 0600, entry.loop.device);
    }
    found.push_back(std::move(entry));
  }
  if (found.empty()) return found;
  const auto answers = AskDevices(found, timeout);
  for (size_t i = 0; i < found.size(); ++i) {
    if (answers.ok()) {
      ApplyAnswer((*answers)[i], found[i]);
      continue;
    }
    // Each is asked in a child of its own now, because one of them delayed the others.
    const auto single = AskDevices(std::span(found).subspan(i, 1), timeout);
    ApplyAnswer(single.ok() ? single->front() : Answer{}, found[i]);
  }
  // Devices that were detached meanwhile are left out.
  std::vector<LoopEntry> attached;
  for (LoopEntry& entry : found) {
    if (!entry.answered) {
      ASSIGN_OR_RETURN(const uint64_t sequence, ReadDiskSequence(entry.loop.path));
      ASSIGN_OR_RETURN(const bool has_image, HasImage(base::FileNameOf(entry.loop.path)));
      if (sequence != entry.sequence || !has_image) continue;
    }
    attached.push_back(std::move(entry));
  }
  found = std::move(attached);
  std::sort(found.begin(), found.end(),
            [](const LoopEntry& a, const LoopEntry& b) { return a.loop.device < b.loop.device; });
  return found;
}

base::StatusOr<bool> HasImage(std::string_view device) {
  // The folder is there only while a file is attached.
  const std::string path = fmt::format("{}/{}/loop", kDevices, device);
  if (access(path.c_str(), F_OK) == 0) return true;
  if (IsGoneError(errno)) return false;
  return ErrnoError(errno, fmt::format("look for {}", path));
}

base::StatusOr<uint64_t> ReadDiskSequence(std::string_view device) {
  return ReadNumberAttribute(base::FileNameOf(device), "diskseq");
}

}  // namespace berth::platform
