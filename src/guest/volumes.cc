#include "guest/volumes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>

#include <chrono>
#include <utility>

#include "base/ipc/guest_call.h"
#include "guest/child_call.h"
#include "guest/disks.h"
#include "guest/files.h"
#include "guest/grafts.h"
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

constexpr size_t kMostGrafts = 4096;  // of a volume
// In the reply of the child that mounts.
constexpr std::string_view kDisk = "disk";

std::string StagePath(const std::string& name) { return "/stage/" + name; }

Message NotMounted(const std::string& name) {
  return ErrorReply("NOT_FOUND", "volume '" + name + "' is not mounted in the guest");
}

steady_clock::time_point DiskDeadline(const Message& request) {
  return steady_clock::now() +
         std::chrono::milliseconds(request.FindNumber(calls::kMilliseconds).value_or(0));
}

Message NoDisk(const std::string& serial) {
  return ErrorReply("UNAVAILABLE",
                    "the guest does not see the disk with serial number '" + serial + "'");
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
Message Mount(const Message& request, const Volume&) {
  const std::string name = ReadText(request, calls::kName);
  const std::string stage = StagePath(name), place = calls::VolumePath(name);
  if (IsMounted(place)) return Message();
  const std::string type = ReadText(request, calls::kType),
                    serial = ReadText(request, calls::kSerial);
  const std::string disk = AwaitDisk(serial, DiskDeadline(request));
  if (disk.empty()) return NoDisk(serial);
  if (!IsMounted(stage)) {
    if (std::string error = LoadModules(calls::ModuleList(type)); !error.empty()) {
      return ErrorReply("FAILED_PRECONDITION", std::move(error));
    }
    mkdir(stage.c_str(), 0700);
    KernelLog log(KernelLog::From::kNow);
    const auto flags = static_cast<unsigned long>(request.FindNumber(calls::kFlags).value_or(0));
    const std::string data = ReadText(request, calls::kData);
    if (mount(("/dev/" + disk).c_str(), stage.c_str(), type.c_str(), flags, data.c_str()) != 0) {
      const int error = errno;
      // An unknown option is told without the disk's name.
      return FailureReply("mount " + type + " in the guest", error, log.ReadProblems(""));
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
    return FailureReply("move the mount in the guest", error);
  }
  rmdir(stage.c_str());
  return Message().Set(calls::kFailure, CountExt4Errors(disk)).Set(kDisk, disk);
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

Message Unmount(const Message& request, const Volume& volume) {
  const std::string name = ReadText(request, calls::kName);
  if (const int error = RemoveGrafts(name); error != 0) {
    return FailureReply("unmount parts of the volume in the guest", error);
  }
  std::string disk = volume.disk;
  for (const std::string& path : {calls::VolumePath(name), StagePath(name)}) {
    if (!IsMounted(path)) continue;
    disk = DiskOf(path);
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0) {
      return FailureReply("unmount the volume in the guest", errno);
    }
    rmdir(path.c_str());
  }
  // A container has mounts of its own, which this does not unmount.
  if (disk.empty()) return Message();
  if (const int error = AwaitFree(disk); error != 0) {
    return FailureReply("the volume is unmounted, but its disk is still in use in the guest",
                        error);
  }
  return Message();
}

Message Graft(const Message& request, const Volume& volume) {
  const std::string name = ReadText(request, calls::kName);
  const std::string root = calls::VolumePath(name), path = ReadText(request, calls::kPath);
  if (!IsMounted(root)) return NotMounted(name);
  if (path.empty()) return Message().Set(calls::kPlace, root);
  const auto number = volume.grafts.find(path);
  if (number == volume.grafts.end()) {
    return ErrorReply("RESOURCE_EXHAUSTED", "the volume has too many subPaths");
  }
  return MakeGraft(root, path, GraftPlace(name, number->second));
}

// Replies the numbers of a disk.
Message FindDisk(const Message& request) {
  const std::string serial = ReadText(request, calls::kSerial);
  const std::string disk = AwaitDisk(serial, DiskDeadline(request));
  if (disk.empty()) return NoDisk(serial);
  const std::string text = ReadFile("/sys/block/" + disk + "/dev");
  unsigned major = 0, minor = 0;
  if (sscanf(text.c_str(), "%u:%u", &major, &minor) != 2) {
    return ErrorReply("INTERNAL", "the guest's disk " + disk + " has no number");
  }
  return Message().Set(calls::kMajor, int64_t{major}).Set(calls::kMinor, int64_t{minor});
}

Message Expand(const Message& request, const Volume&) {
  const std::string name = ReadText(request, calls::kName);
  const std::string path = calls::VolumePath(name);
  if (!IsMounted(path)) return NotMounted(name);
  const std::string disk = DiskOf(path);
  const std::string type = ReadText(request, calls::kType);
  const auto bytes = static_cast<uint64_t>(request.FindNumber(calls::kBytes).value_or(0));
  if (!AwaitSize(disk, bytes, steady_clock::now() + kSizeWithin)) {
    return ErrorReply("UNAVAILABLE", "the guest does not see the disk's new size");
  }
  const base::UniqueFd root(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return FailureReply("open the volume's root folder in the guest", errno);
  KernelLog log(KernelLog::From::kNow);
  int error = EOPNOTSUPP;
  if (type == "ext4") error = platform::GrowMountedExt4(root.get(), ReadSize(disk));
  if (type == "xfs") error = platform::GrowMountedXfs(root.get(), ReadSize(disk));
  if (type == "btrfs") error = platform::GrowMountedBtrfs(root.get());
  if (error != 0) {
    return FailureReply("grow " + type + " in the guest", error, log.ReadProblems(disk));
  }
  struct statfs fs = {};
  if (fstatfs(root.get(), &fs) != 0) return FailureReply("read the volume's size", errno);
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

Message Stats(const Message& request, const Volume& volume) {
  const std::string name = ReadText(request, calls::kName);
  const std::string path = calls::VolumePath(name);
  if (!IsMounted(path)) return NotMounted(name);
  const std::string disk = DiskOf(path);
  const base::UniqueFd root(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs fs = {};
  if (!root.valid() || fstatfs(root.get(), &fs) != 0) {
    const int error = errno;
    return FailureReply("read the volume", error,
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
  } else if (CountExt4Errors(disk) > volume.errors) {
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
  const auto add = [&](std::string_view name, Change change, Body body) {
    control.AddMethod(name, [this, change, body](const Message& request, Reply reply) {
      RunInChild(request, std::move(reply), change, body);
    });
  };
  add(calls::kMount, Change::kMount, Mount);
  add(calls::kUnmount, Change::kUnmount, Unmount);
  add(calls::kExpand, Change::kNone, Expand);
  add(calls::kStats, Change::kNone, Stats);
  add(calls::kGraft, Change::kGraft, Graft);
  control.AddMethod(calls::kDisk, [this](const Message& request, Reply reply) {
    CallInChild(loop_, [&] { return FindDisk(request); }, std::move(reply));
  });
}

void Volumes::RunInChild(const Message& request, Reply reply, Change change, Body body) {
  const std::string name = ReadText(request, calls::kName);
  if (!calls::IsVolumeName(name)) {
    return reply(ErrorReply("INVALID_ARGUMENT", "'" + name + "' is no name of a volume"));
  }
  Volume& volume = volumes_[name];
  if (volume.child != 0) {
    if (change == Change::kUnmount && volume.mounts) kill(volume.child, SIGKILL);
    return reply(
        ErrorReply("UNAVAILABLE", "an earlier call for the volume still runs in the guest"));
  }
  if (change == Change::kGraft && volume.grafts.size() < kMostGrafts) {
    volume.grafts.try_emplace(ReadText(request, calls::kPath), volume.grafts.size());
  }
  volume.mounts = change == Change::kMount;
  volume.child = CallInChild(
      loop_, [&] { return body(request, volume); },
      [this, name, change, reply = std::move(reply)](const Message& message) {
        Volume& ended = volumes_[name];
        ended.child = 0;
        const bool done = message.FindText(base::ipc::kError) == nullptr;
        if (done && change == Change::kUnmount) ended = {};
        if (const auto errors = message.FindNumber(calls::kFailure);
            errors && change == Change::kMount) {
          ended.errors = *errors;
          ended.disk = ReadText(message, kDisk);
        }
        reply(message);
      });
}

}  // namespace berth::guest
