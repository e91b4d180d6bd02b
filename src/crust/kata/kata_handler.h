// The CRUST handler in front of Kata as a whole (`berth kata-handler`): it serves the API on a
// socket, and tells an unmodified Kata of volumes by files (kata_calls.h).
//
// All its state is in the data folder and in Kata's files, so a new handler on the same folders
// goes on, and sandboxes do not notice the restart. It must run in the host's mount namespace and
// see the host's processes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::crust::kata {

struct KataHandlerOptions {
  std::string socket = "/run/berth/kata.sock";  // CRUST, as RuntimeClass.fsMgmtSocket names it
  std::string data_folder = "/var/lib/berth/crust/kata";
  std::string kubelet_folder = "/var/lib/kubelet";
  // The folder below which Kata has its files, and that of containerd's bundles (kata_sandboxes.h).
  std::string kata_run = "/run";
  std::string bundles = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
  // Which of Kata's runtimes the RuntimeClass leads to: "go" or "rust".
  std::string runtime = "go";
  // By their names in proto/crust.proto; empty: what the runtime can do (kata_offer.h).
  std::vector<std::string> capabilities;
  // Of block devices. The kernel in the virtual machine has to know them.
  std::vector<std::string> file_systems = {"ext4", "xfs"};
  // As in KataCallsOptions (kata_calls.h).
  std::chrono::milliseconds check_interval{std::chrono::seconds(30)};
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  size_t workers = 16;
  size_t max_queued = 1024;  // more calls get UNAVAILABLE
};

class KataHandler {
 public:
  // FAILED_PRECONDITION: another handler uses the folder or the socket. INVALID_ARGUMENT: an option
  // is wrong. Other errors: a folder, record or socket cannot be read or made.
  static base::StatusOr<std::unique_ptr<KataHandler>> Start(const KataHandlerOptions& options);
  // Accepts no more calls and waits for those that run. The volumes stay published.
  virtual ~KataHandler() = default;
};

}  // namespace berth::crust::kata
