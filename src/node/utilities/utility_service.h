// The agent's side of berth-shim: runs a utility of the host in the pod that is registered for its
// plugin, and nowhere else: on the host it would find the shim again.
//
//   shim ── argv, env, cwd ──▶ socket, root only ──▶ the plugin's pod ──▶ exit code, output
//
// The environment travels by a file (Command::secrets), since it may hold what argv must not. The
// variables that are the host's own (PATH, LD_*) are left out; the working directory goes along
// where the pod has it, below the kubelet's folder.
//
// What mount.<type> mounts must come to be seen on the host: a target elsewhere than below the
// kubelet's folder is refused, and a mount that stays in the pod is taken away again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::node {

struct UtilityServiceOptions {
  std::string socket;  // its folder is made if it is missing
  std::string kubelet_folder;
  // The way of `plugin` into its pod, which never leads to the host; lives as long as the service.
  std::function<platform::Exec&(std::string_view plugin)> in_pod;
  // Ends the runs that go on, so that the service can end.
  std::function<void()> cancel;
  uid_t peer = 0;  // who alone is answered
};

class UtilityService {
 public:
  // Borrows `mounter`. FAILED_PRECONDITION: another process listens there.
  static base::StatusOr<std::unique_ptr<UtilityService>> Start(UtilityServiceOptions options,
                                                               platform::Mounter& mounter);
  // Takes no more requests, cancels what runs, and waits for its end.
  virtual ~UtilityService() = default;
};

}  // namespace berth::node
