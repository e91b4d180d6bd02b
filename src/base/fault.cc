#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace berth::base {
namespace {

struct Fault {
  bool crash = false;
  int at_passage = 1;
  int passages = 0;
};

struct Faults {
  Mutex mutex;
  std::map<std::string, Fault, std::less<>> on ABSL_GUARDED_BY(mutex);
  std::set<std::string, std::less<>> seen ABSL_GUARDED_BY(mutex);
  UniqueFd log ABSL_GUARDED_BY(mutex);
  std::string once_folder ABSL_GUARDED_BY(mutex);
};

// Leaves the mark of a crash; false if it is there already.
bool MarkCrash(const std::string& folder, std::string_view point) {
  if (folder.empty()) return true;
  const std::string path = fmt::format("{}/{}", folder, point);
  return UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).valid();
}

std::atomic<bool> enabled{false};

Faults& State() {
  static Faults faults;
  return faults;
}

}  // namespace

Status FaultPoint(std::string_view name) {
  if (!enabled.load(std::memory_order_relaxed)) return OkStatus();
  Faults& faults = State();
  MutexLock lock(faults.mutex);
  if (faults.log.valid() && faults.seen.emplace(name).second) {
    const std::string line = fmt::format("{}\n", name);
    if (write(faults.log.get(), line.data(), line.size()) < 0) faults.log.Reset();
  }
  const auto it = faults.on.find(name);
  if (it == faults.on.end() || ++it->second.passages < it->second.at_passage) return OkStatus();
  if (it->second.crash) {
    if (!MarkCrash(faults.once_folder, name)) return OkStatus();
    kill(getpid(), SIGKILL);
    _exit(137);
  }
  return Error(StatusCode::kInternal, "fault point '{}' was told to fail", name);
}

Status InitFaultPoints() {
  Faults& faults = State();
  MutexLock lock(faults.mutex);
  if (const char* path = std::getenv("BERTH_FAULT_LOG"); path != nullptr) {
    faults.log.Reset(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    enabled = true;
  }
  if (const char* folder = std::getenv("BERTH_FAULT_ONCE"); folder != nullptr) {
    faults.once_folder = folder;
  }
  const char* spec = std::getenv("BERTH_FAULTS");
  if (spec == nullptr) return OkStatus();
  std::string_view rest = spec;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const size_t equals = item.find('=');
    Fault fault;
    std::string_view action = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (action.starts_with("crash@")) {
      fault.at_passage = std::atoi(std::string(action.substr(6)).c_str());
      action = "crash";
    }
    fault.crash = action == "crash";
    if ((action != "crash" && action != "error") || fault.at_passage < 1) {
      return Error(StatusCode::kInvalidArgument,
                   "BERTH_FAULTS: '{}' is not NAME=crash[@N] or NAME=error", item);
    }
    faults.on.emplace(item.substr(0, equals), fault);
  }
  enabled = true;
  return OkStatus();
}

}  // namespace berth::base
