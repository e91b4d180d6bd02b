#include "crust/bundle_check.h"

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

// If a check does not find the sandbox, the handler checks once more after this time before it
// treats the sandbox as ended.
constexpr milliseconds kSecondCheckWait(2000);
// After a restart of the handler the checks begin with this time, because nothing else shows that a
// sandbox ended while no handler ran.
constexpr milliseconds kShortestWait(500);

// Whether the sandbox has no volume and its pod has left the node, so that the pod's plan is gone.
// This is needed because a runtime that is killed while it makes a sandbox may never remove the
// bundle.
bool IsAbandoned(const SandboxRecord& record, const std::string& run_folder) {
  const std::string plan = base::ipc::crust::PlanPath(run_folder, record.pod_uid.text());
  return record.volumes.empty() && access(plan.c_str(), F_OK) != 0 && errno == ENOENT;
}

}  // namespace

bool IsFolder(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::optional<milliseconds> CheckSandboxExists(SandboxTable::Entry& entry,
                                               const std::string& run_folder,
                                               milliseconds check_interval) {
  const SandboxRecord& record = entry.record;
  if (IsFolder(record.bundle) && !IsAbandoned(record, run_folder)) {
    entry.missed = false;
    entry.wait = std::min(std::max(entry.wait * 2, kShortestWait), check_interval);
    return entry.wait;
  }
  if (!std::exchange(entry.missed, true)) return std::min(kSecondCheckWait, check_interval);
  LOG_INFO("sandbox {} has ended: its bundle {} or its pod is gone", base::Quote(record.sandbox_id),
           base::Quote(record.bundle));
  return std::nullopt;
}

}  // namespace berth::crust
