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

// If a bundle is missing, the handler looks once more after this time before it treats the sandbox
// as gone.
constexpr milliseconds kLookAgain(2000);
// The first look comes early, because a sandbox that ended while no handler ran gets no other
// notice.
constexpr milliseconds kFirstLook(500);

// True for a sandbox that never had a volume and whose pod the node has finished with. This check
// is needed because a runtime that is killed while it makes a sandbox may never remove the bundle.
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
