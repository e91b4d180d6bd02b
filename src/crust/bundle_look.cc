#include "crust/bundle_look.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/ipc/crust_call.h"
#include "base/log.h"

namespace berth::crust {
namespace {

using std::chrono::milliseconds;

// A bundle that is not there is looked for once more before its sandbox is held for gone.
constexpr milliseconds kLookAgain(2000);
// A sandbox that ends while no handler runs does so soon after it was taken up, and nobody tells.
constexpr milliseconds kFirstLook(500);

// A runtime that was killed while it made a sandbox may leave the bundle for good: nothing was put
// into that sandbox, and the node has finished with its pod.
bool IsForsaken(const SandboxRecord& record, const std::string& run_folder) {
  const std::string plan = base::ipc::crust::PlanPath(run_folder, record.pod_uid);
  return record.volumes.empty() && access(plan.c_str(), F_OK) != 0 && errno == ENOENT;
}

}  // namespace

bool IsFolder(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::optional<milliseconds> TimeToNextLook(SandboxTable::Entry& entry,
                                           const std::string& run_folder, milliseconds look_every) {
  const SandboxRecord& record = entry.record;
  if (IsFolder(record.bundle) && !IsForsaken(record, run_folder)) {
    entry.missed = false;
    entry.wait = std::min(std::max(entry.wait * 2, kFirstLook), look_every);
    return entry.wait;
  }
  if (!std::exchange(entry.missed, true)) return std::min(kLookAgain, look_every);
  LOG_INFO("sandbox {} is gone: its bundle {} or its pod is", base::Quote(record.sandbox_id),
           base::Quote(record.bundle));
  return std::nullopt;
}

}  // namespace berth::crust
