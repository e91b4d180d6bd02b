// Serves the agent's socket, to which its driver sends requests (base/ipc/block_call.h).
//
//   [waiting] ── init, versions agree ──▶ [ready]      all other requests wait for that, as long
//                                                      as the driver waits for them
//
// Only processes of the uid DriverServiceOptions::peer (root) get an answer, and the socket's mode
// is 0600. Requests run on a bounded number of threads; a request runs to its end even if its
// driver is killed. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "blockagent/mount_call.h"

namespace berth::blockagent {

struct DriverServiceOptions {
  using Deadline = std::chrono::steady_clock::time_point;
  std::string socket;
  std::function<base::Status(const MountCall& call, Deadline deadline)> mount;
  std::function<base::Status(const std::string& mount_dir, Deadline deadline)> unmount;
  std::function<base::Status(const std::string& mount_dir, int64_t bytes, Deadline deadline)>
      expand;
  // How long a request may take. It is less than the time that the driver waits.
  std::chrono::milliseconds call_time = std::chrono::seconds(105);
  uid_t peer = 0;
};

class DriverService {
 public:
  // FAILED_PRECONDITION: another process listens at the socket, or the path is not a socket.
  // INVALID_ARGUMENT: the path cannot be a socket's (rpc/unix_socket.h).
  static base::StatusOr<std::unique_ptr<DriverService>> Start(DriverServiceOptions options);
  // Removes the socket, accepts no more requests, and waits for those that run.
  virtual ~DriverService() = default;

  // Whether the kubelet has called the driver's init, with the right version.
  virtual bool ready() const = 0;
};

}  // namespace berth::blockagent
