#include "volume/flex/check/scratch.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/ids.h"
#include "base/log.h"
#include "platform/devices/loop_device.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/marked_processes.h"
#include "platform/processes/process_info.h"

namespace berth::volume {
namespace {

using base::StatusOr;

constexpr std::chrono::seconds kGrace(2);
// A detached loop device stays as long as it is in another process's copy of the mounts.
constexpr std::chrono::seconds kLoopGrace(5);
constexpr std::chrono::milliseconds kLook(50);
constexpr int kTries = 50;

std::vector<std::string> ListMarkedProcesses(const std::string& mark) {
  std::vector<std::string> found;
  for (const pid_t pid : platform::ListMarkedProcesses(mark)) {
    const auto process = platform::ReadProcess(pid);
    if (!process.ok() || process->state == 'Z') continue;
    found.push_back(fmt::format("process {} ({})", pid, process->name));
  }
  return found;
}

struct BackedLoop {
  std::string name;  // "loop3"
  std::string file;
};

std::vector<BackedLoop> ListBackedLoops() {
  std::vector<BackedLoop> loops;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("loop")) continue;
    const auto file = platform::ReadFile(fmt::format("/sys/block/{}/loop/backing_file", name));
    if (!file.ok() || file->empty()) continue;
    loops.push_back({.name = name, .file = file->substr(0, file->find('\n'))});
  }
  return loops;
}

}  // namespace

StatusOr<std::unique_ptr<Scratch>> Scratch::Make(const std::string& parent) {
  std::string folder = parent + "/berth-flex-check-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    const int error = errno;
    return platform::ErrnoError(error, fmt::format("make a folder in {}", base::Quote(parent)));
  }
  if (chmod(folder.c_str(), 0755) != 0) {
    const int error = errno;
    return platform::ErrnoError(error, fmt::format("chmod {}", base::Quote(folder)));
  }
  const std::string mark = "BERTH_FLEX_CHECK=" + base::NewUuid();
  return std::unique_ptr<Scratch>(new Scratch(std::filesystem::canonical(folder), mark));
}

Scratch::Scratch(std::string folder, std::string mark)
    : folder_(std::move(folder)),
      mark_(std::move(mark)),
      paths_(folder_ + "/kubelet"),
      mounter_(platform::NewMounter()) {}

Scratch::~Scratch() {
  platform::KillMarkedProcesses(mark_, kGrace);
  for (int i = 0; i < kTries; ++i) {
    const auto table = mounter_->List();
    if (!table.ok()) break;
    const auto last = std::find_if(table->rbegin(), table->rend(), [this](const auto& entry) {
      return IsWithin(entry.mount_point);
    });
    if (last == table->rend()) break;
    (void)mounter_->UnmountLazy(last->mount_point);
  }
  const auto loops = platform::ListLoopEntries(
      [this](std::string_view image) { return IsWithin(std::string(image)); });
  for (const platform::LoopEntry& each : loops.value_or(std::vector<platform::LoopEntry>())) {
    for (int i = 0; i < kTries; ++i) {
      if (platform::DetachLoop(each.loop, each.sequence, kGrace).ok()) break;
      std::this_thread::sleep_for(kLook);
    }
  }
  const base::Status removed = platform::RemoveTree(folder_);
  if (!removed.ok()) LOG_WARNING("remove the scratch folder: {}", base::ToString(removed));
}

bool Scratch::IsWithin(const std::string& path) const { return path.starts_with(folder_ + "/"); }

StatusOr<std::vector<platform::MountEntry>> Scratch::FindMounts(const std::string& folder) {
  ASSIGN_OR_RETURN(auto table, mounter_->List());
  std::erase_if(table, [&folder](const auto& entry) { return entry.mount_point != folder; });
  return table;
}

StatusOr<std::vector<std::string>> Scratch::ListProcesses() const {
  const auto until = std::chrono::steady_clock::now() + kGrace;
  std::vector<std::string> found = ListMarkedProcesses(mark_);
  while (!found.empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    found = ListMarkedProcesses(mark_);
  }
  return found;
}

StatusOr<std::vector<std::string>> Scratch::ListMounts() {
  ASSIGN_OR_RETURN(const auto table, mounter_->List());
  std::vector<std::string> found;
  for (const platform::MountEntry& entry : table) {
    if (!IsWithin(entry.mount_point)) continue;
    found.push_back(fmt::format("{} mounted at {}", entry.fs_type, base::Quote(entry.mount_point)));
  }
  return found;
}

StatusOr<std::vector<std::string>> Scratch::ListLoopDevices() const {
  const auto until = std::chrono::steady_clock::now() + kLoopGrace;
  for (;;) {
    std::vector<std::string> found;
    for (const BackedLoop& loop : ListBackedLoops()) {
      if (!IsWithin(loop.file)) continue;
      found.push_back(fmt::format("/dev/{} on {}", loop.name, base::Quote(loop.file)));
    }
    if (found.empty() || std::chrono::steady_clock::now() >= until) return found;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace berth::volume
