// The agent's side of berth-shim: runs a utility of the host in the pod that is registered for its
// plugin. It never runs the utility on the host, because there it would find the shim again.
//
//   shim ── argv, env, cwd ──▶ socket, root only ──▶ the plugin's pod ──▶ exit code, output
//
// The environment travels in a file (Command::secrets), because it may hold secrets that must not
// be in argv. The host's own variables (PATH, LD_*) are left out. The working directory is kept if
// it is below the kubelet's folder, because the pod has no other folder of the host.
//
// The host must see the mounts of mount.<type>. So a target that is not below the kubelet's folder
// is refused, and a mount that only the pod sees is unmounted again.
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
  // Runs commands in the pod of `plugin`, and never on the host. The result must outlive the
  // service.
  std::function<platform::Exec&(std::string_view plugin)> in_pod;
  // Cancels the utilities that run, so that the service can end.
  std::function<void()> cancel;
  uid_t peer = 0;  // the only user whose requests are answered
};

class UtilityService {
 public:
  // Borrows `mounter`. FAILED_PRECONDITION: another process listens on the socket.
  static base::StatusOr<std::unique_ptr<UtilityService>> Start(UtilityServiceOptions options,
                                                               platform::Mounter& mounter);
  // Takes no more requests, cancels the running utilities, and waits for their end.
  virtual ~UtilityService() = default;
};

}  // namespace berth::node
