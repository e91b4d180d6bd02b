#include "guest/boot.h"

#include <errno.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ipc/guest_call.h"
#include "guest/files.h"
#include "guest/kernel.h"

namespace berth::guest {
namespace {

// The walk of a volume has a folder open for each level.
constexpr rlim_t kMostFiles = 8192;

// Makes a bind mount of the initramfs the root. runc changes the root by pivot_root(2), which the
// kernel refuses where the root is the initramfs itself. "": done; else the error in words.
std::string LeaveInitramfs() {
  constexpr const char* kRoot = "/root";
  mkdir(kRoot, 0700);
  if (mount("/", kRoot, nullptr, MS_BIND, nullptr) != 0 || chdir(kRoot) != 0 ||
      mount(".", "/", nullptr, MS_MOVE, nullptr) != 0 || chroot(".") != 0 || chdir("/") != 0) {
    return Describe("leave the initramfs", errno);
  }
  return "";
}

}  // namespace

std::string PrepareSystem() {
  struct {
    const char* type;
    const char* path;
    const char* data;
  } const kFolders[] = {
      {"proc", "/proc", nullptr},
      {"sysfs", "/sys", nullptr},
      {"devtmpfs", "/dev", nullptr},
      {"cgroup2", "/sys/fs/cgroup", nullptr},
      {"devpts", "/dev/pts", "mode=620,ptmxmode=666"},
      {"tmpfs", "/dev/shm", "mode=1777"},
      {"mqueue", "/dev/mqueue", nullptr},
  };
  umask(0);
  if (std::string error = LeaveInitramfs(); !error.empty()) return error;
  for (const auto& [type, path, data] : kFolders) {
    mkdir(path, 0755);
    if (mount(type, path, type, MS_NOSUID | MS_NOEXEC, data) != 0 && errno != EBUSY) {
      return Describe(std::string("mount ") + path, errno);
    }
  }
  mkdir("/run", 0755);
  mkdir("/tmp", 01777);
  mkdir("/stage", 0700);
  mkdir(base::ipc::guest::kVolumeFolder, 0700);
  const rlimit files = {.rlim_cur = kMostFiles, .rlim_max = kMostFiles};
  setrlimit(RLIMIT_NOFILE, &files);
  return LoadModules(base::ipc::guest::kBootList);
}

}  // namespace berth::guest
