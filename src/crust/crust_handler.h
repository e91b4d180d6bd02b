// The CRUST handler as a whole (`berth crust-handler`): sandboxes that are mount namespaces, and
// the two sockets on which the node agent and berth-oci ask for their volumes.
//
// All that it has is in its data folder, the mount namespaces that are bound there, and the run
// folder: a handler started anew on the same folders goes on, and containers never notice that it
// was away. It must run in the host's mount namespace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::crust {

struct CrustHandlerOptions {
  std::string socket;      // CRUST, as RuntimeClass.fsMgmtSocket names it
  std::string oci_socket;  // for berth-oci
  std::string data_folder = "/var/lib/berth/crust";
  std::string run_folder;
  std::string kubelet_folder = "/var/lib/kubelet";
  // By their names in proto/crust.proto; empty: all.
  std::vector<std::string> capabilities;
  // Those that the kernel knows are offered.
  std::vector<std::string> file_systems = {"ext4", "xfs", "btrfs"};
  std::vector<std::string> shares;
  // Shares that a mount utility mounts, as FUSE file systems: "TYPE", by mount.TYPE, or
  // "TYPE=PROGRAM".
  std::vector<std::string> utility_shares;
  std::chrono::milliseconds look_every{std::chrono::seconds(30)};
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  size_t workers = 16;
  size_t max_queued = 1024;  // beyond, UNAVAILABLE
};

class CrustHandler {
 public:
  // FAILED_PRECONDITION: another handler has the folder or a socket. INVALID_ARGUMENT: options.
  static base::StatusOr<std::unique_ptr<CrustHandler>> Start(const CrustHandlerOptions& options);
  // Takes no more calls and waits for those at work. Leaves every volume as it is.
  virtual ~CrustHandler() = default;
};

}  // namespace berth::crust
