#include "guest/disks.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>

#include <cstdlib>
#include <memory>

#include "base/unique_fd.h"
#include "guest/files.h"

namespace berth::guest {
namespace {

// The guest has no udev, and nothing reports a new disk, so it is polled.
constexpr timespec kDiskPause = {.tv_sec = 0, .tv_nsec = 2'000'000};
// A page of vital product data (SPC-4, 7.8.18) has a header of four bytes.
constexpr size_t kHeader = 4;

void Pause() { clock_nanosleep(CLOCK_MONOTONIC, 0, &kDiskPause, nullptr); }

std::string FindDisk(const std::string& serial) {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(opendir("/sys/block"));
  if (folder == nullptr) return "";
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with("sd")) continue;
    const std::string page = ReadFile("/sys/block/" + name + "/device/vpd_pg80");
    if (page.size() > kHeader && page.substr(kHeader).starts_with(serial)) return name;
  }
  return "";
}

// The kernel makes the folder in /sys first, then the device file, and lets it be opened last.
bool CanBeOpened(const std::string& disk) {
  return base::UniqueFd(open(("/dev/" + disk).c_str(), O_RDONLY | O_CLOEXEC)).valid();
}

}  // namespace

std::string AwaitDisk(const std::string& serial, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const std::string name = FindDisk(serial);
    if (!name.empty() && CanBeOpened(name)) return name;
    if (std::chrono::steady_clock::now() >= deadline) return "";
    Pause();
  }
}

bool AwaitSize(const std::string& disk, uint64_t bytes,
               std::chrono::steady_clock::time_point deadline) {
  while (true) {
    if (!WriteFile("/sys/block/" + disk + "/device/rescan", "1").empty()) return false;
    if (ReadSize(disk) >= bytes) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    Pause();
  }
}

uint64_t ReadSize(const std::string& disk) {
  constexpr uint64_t kSector = 512;
  return std::strtoull(ReadFile("/sys/block/" + disk + "/size").c_str(), nullptr, 10) * kSector;
}

}  // namespace berth::guest
