#include "guest/volumes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>

#include <chrono>
#include <memory>
#include <utility>

#include "base/ipc/guest_call.h"
#include "guest/disks.h"
#include "guest/files.h"
#include "guest/group_walk.h"
#include "guest/kernel.h"
#include "platform/file_systems/grow.h"

namespace berth::guest {

using base::ipc::Message;
namespace calls = base::ipc::guest;
using std::chrono::steady_clock;

namespace {

// How long a disk may stay busy after its volume was unmounted, because the kernel ends a file
// system after the call.
constexpr std::chrono::seconds kFreeWithin(10);
constexpr timespec kFreePause = {.tv_sec = 0, .tv_nsec = 5'000'000};
constexpr std::chrono::seconds kSizeWithin(30);

std::string StagePath(const std::string& name) { return "/stage/" + name; }

std::string TextOf(const Message& request, std::string_view field) {
  const std::string* text = request.FindText(field);
  return text != nullptr ? *text : std::string();
}

Message SystemError(std::string_view what, int error, std::string_view kernel_says = "") {
  std::string text = Describe(what, error);
  if (!kernel_says.empty()) {
    text += ": the guest's kernel says '" + std::string(kernel_says) + "'";
  }
  switch (error) {
    case ENOENT:
    case ENODEV:
      return ErrorReply("NOT_FOUND", std::move(text));
    case EINVAL:
      return ErrorReply("INVALID_ARGUMENT", std::move(text));
    case EBUSY:
      return ErrorReply("FAILED_PRECONDITION", std::move(text));
    case ENOMEM:
    case ENOSPC:
      return ErrorReply("RESOURCE_EXHAUSTED", std::move(text));
    default:
      return ErrorReply("INTERNAL", std::move(text));
  }
}

Message NotMounted(const std::string& name) {
  return ErrorReply("NOT_FOUND", "volume '" + name + "' is not mounted in the guest");
}

bool IsMounted(const std::string& path) {
  struct statx found = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  return statx(AT_FDCWD, path.c_str(), kFlags, STATX_TYPE, &found) == 0 &&
         (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int64_t CountExt4Errors(const std::string& disk) {
  return atoll(ReadFile("/sys/fs/ext4/" + disk + "/errors_count").c_str());
}

// The disk of a mounted volume, by the mount table; "": unknown.
std::string DiskOf(const std::string& path) {
  const std::string table = ReadFile("/proc/self/mounts");
  for (size_t begin = 0; begin < table.size();) {
    const size_t end = std::min(table.find('\n', begin), table.size());
    const std::string line = table.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(' ');
    if (!line.starts_with("/dev/") || first == std::string::npos) continue;
    if (line.substr(first + 1).starts_with(path + " ")) {
      return line.substr(5, first - 5);
    }
  }
  return "";
}

// Runs in a child.
Message Mount(const Message& request) {
  const std::string name = TextOf(request, calls::kName);
  const std::string stage = StagePath(name), place = calls::VolumePath(name);
  if (IsMounted(place)) return Message();
  const std::string type = TextOf(request, calls::kType), serial = TextOf(request, calls::kSerial);
  const std::string disk = AwaitDisk(
      serial, steady_clock::now() +
                  std::chrono::milliseconds(request.FindNumber(calls::kMilliseconds).value_or(0)));
  if (disk.empty()) {
    return ErrorReply("UNAVAILABLE",
                      "the guest does not see the disk with serial number '" + serial + "'");
  }
  if (!IsMounted(stage)) {
    if (std::string error = LoadModules(calls::ModuleList(type)); !error.empty()) {
      return ErrorReply("FAILED_PRECONDITION", std::move(error));
    }
    mkdir(stage.c_str(), 0700);
    KernelLog log(KernelLog::From::kNow);
    const auto flags = static_cast<unsigned long>(request.FindNumber(calls::kFlags).value_or(0));
    const std::string data = TextOf(request, calls::kData);
    if (mount(("/dev/" + disk).c_str(), stage.c_str(), type.c_str(), flags, data.c_str()) != 0) {
      const int error = errno;
      // An unknown option is told without the disk's name.
      return SystemError("mount " + type + " in the guest", error, log.ReadProblems(""));
    }
  }
  if (const auto group = request.FindNumber(calls::kGroup); group.has_value()) {
    const GroupOptions options = {
        .group = static_cast<gid_t>(*group),
        .only_on_root_mismatch = request.FindNumber(calls::kOnlyRoot).value_or(0) != 0};
    if (std::string error = GiveToGroup(stage, options); !error.empty()) {
      umount2(stage.c_str(), 0);
      return ErrorReply("FAILED_PRECONDITION", std::move(error));
    }
  }
  mkdir(place.c_str(), 0700);
  if (mount(stage.c_str(), place.c_str(), nullptr, MS_MOVE, nullptr) != 0) {
    const int error = errno;
    umount2(stage.c_str(), 0);
    return SystemError("move the mount in the guest", error);
  }
  rmdir(stage.c_str());
  return Message().Set(calls::kFailure, CountExt4Errors(disk));
}

// Waits until no file system of the guest uses the disk. 0 or an errno.
int AwaitFree(const std::string& disk) {
  const auto deadline = steady_clock::now() + kFreeWithin;
  while (true) {
    const base::UniqueFd fd(open(("/dev/" + disk).c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    if (fd.valid() || errno == ENOENT || errno == ENXIO) return 0;
    if (errno != EBUSY || steady_clock::now() >= deadline) return errno;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kFreePause, nullptr);
  }
}

Message Unmount(const Message& request) {
  const std::string name = TextOf(request, calls::kName);
  for (const std::string& path : {calls::VolumePath(name), StagePath(name)}) {
    if (!IsMounted(path)) continue;
    const std::string disk = DiskOf(path);
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0) {
      return SystemError("unmount the volume in the guest", errno);
    }
    rmdir(path.c_str());
    if (disk.empty()) continue;
    if (const int error = AwaitFree(disk); error != 0) {
      return SystemError("the volume is unmounted, but its disk is still in use in the guest",
                         error);
    }
  }
  return Message();
}

Message Expand(const Message& request) {
  const std::string name = TextOf(request, calls::kName);
  const std::string path = calls::VolumePath(name);
  if (!IsMounted(path)) return NotMounted(name);
  const std::string disk = DiskOf(path);
  const std::string type = TextOf(request, calls::kType);
  const auto bytes = static_cast<uint64_t>(request.FindNumber(calls::kBytes).value_or(0));
  if (!AwaitSize(disk, bytes, steady_clock::now() + kSizeWithin)) {
    return ErrorReply("UNAVAILABLE", "the guest does not see the disk's new size");
  }
  const base::UniqueFd root(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return SystemError("open the volume's root folder in the guest", errno);
  KernelLog log(KernelLog::From::kNow);
  int error = EOPNOTSUPP;
  if (type == "ext4") error = platform::GrowMountedExt4(root.get(), ReadSize(disk));
  if (type == "xfs") error = platform::GrowMountedXfs(root.get(), ReadSize(disk));
  if (type == "btrfs") error = platform::GrowMountedBtrfs(root.get());
  if (error != 0) {
    return SystemError("grow " + type + " in the guest", error, log.ReadProblems(disk));
  }
  struct statfs fs = {};
  if (fstatfs(root.get(), &fs) != 0) return SystemError("read the volume's size", errno);
  return Message().Set(calls::kTotalBytes,
                       static_cast<int64_t>(fs.f_blocks) * static_cast<int64_t>(fs.f_bsize));
}

// Reads the first entries of a folder. 0 or an errno.
int ReadFolder(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return errno;
  errno = 0;
  const int error = readdir(folder) == nullptr ? errno : 0;
  closedir(folder);
  return error;
}

// `errors`: those that ext4 had counted when it was mounted.
Message Stats(const Message& request, int64_t errors) {
  const std::string name = TextOf(request, calls::kName);
  const std::string path = calls::VolumePath(name);
  if (!IsMounted(path)) return NotMounted(name);
  const std::string disk = DiskOf(path);
  const base::UniqueFd root(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs fs = {};
  if (!root.valid() || fstatfs(root.get(), &fs) != 0) {
    const int error = errno;
    return SystemError("read the volume", error,
                       KernelLog(KernelLog::From::kBegin).ReadProblems(disk));
  }
  const auto block = static_cast<int64_t>(fs.f_bsize);
  const bool read_only = (static_cast<unsigned long>(fs.f_flags) & ST_RDONLY) != 0;
  std::string failure;
  // A file system that was shut down after an error still reports its size; only a read and a write
  // show that it is dead.
  if (const int error = ReadFolder(path); error != 0) {
    failure = Describe("its root folder cannot be read", error);
  } else if (!read_only && fsync(root.get()) != 0) {
    failure = Describe("nothing can be written to the file system any more", errno);
  } else if (CountExt4Errors(disk) > errors) {
    failure = "ext4 has found an error";
  }
  if (!failure.empty() || read_only) {
    const std::string says = KernelLog(KernelLog::From::kBegin).ReadProblems(disk);
    if (!says.empty())
      failure += (failure.empty() ? "" : ": ") + ("the guest's kernel says '" + says + "'");
  }
  return Message()
      .Set(calls::kTotalBytes, static_cast<int64_t>(fs.f_blocks) * block)
      .Set(calls::kUsedBytes, static_cast<int64_t>(fs.f_blocks - fs.f_bfree) * block)
      .Set(calls::kAvailableBytes, static_cast<int64_t>(fs.f_bavail) * block)
      .Set(calls::kTotalInodes, static_cast<int64_t>(fs.f_files))
      .Set(calls::kUsedInodes, static_cast<int64_t>(fs.f_files - fs.f_ffree))
      .Set(calls::kAvailableInodes, static_cast<int64_t>(fs.f_ffree))
      .Set(calls::kReadOnly, read_only ? int64_t{1} : int64_t{0})
      .Set(calls::kFailure, failure);
}

}  // namespace

Volumes::Volumes(Loop& loop, Control& control) : loop_(loop) {
  const auto add = [&](std::string_view name, bool mounts, Body body) {
    control.AddMethod(name, [this, mounts, body](const Message& request, Reply reply) {
      RunInChild(request, std::move(reply), mounts, body);
    });
  };
  add(calls::kMount, true, Mount);
  add(calls::kUnmount, false, Unmount);
  add(calls::kExpand, false, Expand);
  add(calls::kStats, false, [this](const Message& request) { return ReadStats(request); });
}

Message Volumes::ReadStats(const Message& request) const {
  const auto known = volumes_.find(TextOf(request, calls::kName));
  return Stats(request, known == volumes_.end() ? 0 : known->second.errors);
}

void Volumes::RunInChild(const Message& request, Reply reply, bool mounts, Body body) {
  const std::string name = TextOf(request, calls::kName);
  if (!calls::IsVolumeName(name)) {
    return reply(ErrorReply("INVALID_ARGUMENT", "'" + name + "' is no name of a volume"));
  }
  Volume& volume = volumes_[name];
  if (volume.child != 0) {
    const bool unmounts = *request.FindText(base::ipc::kMethod) == calls::kUnmount;
    if (unmounts && volume.mounts) kill(volume.child, SIGKILL);
    return reply(
        ErrorReply("UNAVAILABLE", "an earlier call for the volume still runs in the guest"));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return reply(SystemError("make a pipe", errno));
  auto answer = std::make_shared<base::UniqueFd>(ends[0]);
  base::UniqueFd writes(ends[1]);
  const pid_t child = fork();
  if (child < 0) return reply(SystemError("fork", errno));
  if (child == 0) {
    Loop::ResetSignals();
    const std::string text = base::ipc::WriteJson(body(request));
    [[maybe_unused]] const ssize_t size = write(writes.get(), text.data(), text.size());
    _exit(0);
  }
  volume.child = child;
  volume.mounts = mounts;
  // The answer is short, so it is in the pipe as a whole when the child has ended.
  loop_.OnChildEnd(child, [this, name, mounts, answer, reply = std::move(reply)](int status) {
    Volume& volume = volumes_[name];
    volume.child = 0;
    std::string text(64 * 1024, '\0');
    const ssize_t size = read(answer->get(), text.data(), text.size());
    const auto message = base::ipc::ReadJson(
        std::string_view(text).substr(0, size > 0 ? static_cast<size_t>(size) : 0));
    if (!WIFEXITED(status) || !message.ok()) {
      return reply(ErrorReply("INTERNAL", "the call ended in the guest before it was done"));
    }
    if (mounts) {
      if (const auto errors = message->FindNumber(calls::kFailure)) volume.errors = *errors;
    }
    reply(*message);
  });
}

}  // namespace berth::guest
