#include "guest/boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <chrono>

#include "base/ipc/guest_call.h"
#include "guest/files.h"
#include "guest/kernel.h"

namespace berth::guest {
namespace {

constexpr std::chrono::seconds kPortWithin(60);
constexpr timespec kPortPause = {.tv_sec = 0, .tv_nsec = 2'000'000};
// The walk of a volume has a folder open for each level.
constexpr rlim_t kMostFiles = 8192;

// The device file of the port with this name; "": there is none yet.
std::string FindPort(const std::string& name) {
  constexpr const char* kPorts = "/sys/class/virtio-ports";
  DIR* folder = opendir(kPorts);
  if (folder == nullptr) return "";
  std::string found;
  while (const dirent* entry = readdir(folder)) {
    const std::string port = entry->d_name;
    if (ReadFile(std::string(kPorts) + "/" + port + "/name") == name + "\n") found = "/dev/" + port;
  }
  closedir(folder);
  return found;
}

}  // namespace

std::string PrepareSystem() {
  struct {
    const char* type;
    const char* path;
  } const kFolders[] = {{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}};
  umask(0);
  for (const auto& [type, path] : kFolders) {
    mkdir(path, 0755);
    if (mount(type, path, type, MS_NOSUID | MS_NOEXEC, nullptr) != 0 && errno != EBUSY) {
      return Describe(std::string("mount ") + path, errno);
    }
  }
  mkdir("/stage", 0700);
  mkdir(base::ipc::guest::kVolumeFolder, 0700);
  const rlimit files = {.rlim_cur = kMostFiles, .rlim_max = kMostFiles};
  setrlimit(RLIMIT_NOFILE, &files);
  return LoadModules(base::ipc::guest::kBootList);
}

base::UniqueFd OpenPort(const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + kPortWithin;
  while (std::chrono::steady_clock::now() < deadline) {
    if (const std::string path = FindPort(name); !path.empty()) {
      base::UniqueFd port(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      if (port.valid()) return port;
    }
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kPortPause, nullptr);
  }
  return {};
}

}  // namespace berth::guest
