// The CRUST handler as a whole (`berth crust-handler`): sandboxes that are mount namespaces or
// virtual machines, and the two sockets on which the node agent and berth-oci ask for their
// volumes.
//
// All its state is in the data folder, in the mount namespaces that are bound there, in the virtual
// machines that run, and in the run folder. So a new handler on the same folders goes on, and
// containers do not notice the restart. It must run in the host's mount namespace.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::crust {

enum class SandboxType { kNamespace, kVm };

// Of sandboxes that are virtual machines (machine/machine.h).
struct GuestOptions {
  std::string kernel;   // the file of the guests' kernel
  std::string modules;  // the folder of its modules, such as /lib/modules/6.1.0-42-cloud-amd64
  std::string program;  // berth-guest; empty: the one beside this program
  // This machine's runc, of which the guests get a copy for their containers.
  std::string runc = "/usr/sbin/runc";
  int64_t memory_mib = 256;
  int cpus = 1;
  // As in MachineSettings.
  std::chrono::milliseconds boot_within{std::chrono::seconds(60)};
  std::chrono::milliseconds answer_within{std::chrono::seconds(20)};
};

struct CrustHandlerOptions {
  SandboxType sandbox = SandboxType::kNamespace;
  GuestOptions guest;      // for kVm
  std::string socket;      // CRUST, as RuntimeClass.fsMgmtSocket names it
  std::string oci_socket;  // for berth-oci
  std::string data_folder = "/var/lib/berth/crust";
  std::string run_folder;  // records, plans and marks (paths.h); /run/berth/crust
  std::string kubelet_folder = "/var/lib/kubelet";
  // By their names in proto/crust.proto; empty: all.
  std::vector<std::string> capabilities;
  // Of block devices. The handler offers those of them that the kernel supports.
  std::vector<std::string> file_systems = {"ext4", "xfs", "btrfs"};
  // File systems whose source is not a block device, such as "nfs"; the kernel mounts them.
  std::vector<std::string> shares;
  // Shares that a mount utility mounts as FUSE file systems: "TYPE" uses mount.TYPE; "TYPE=PROGRAM"
  // names the program.
  std::vector<std::string> utility_shares;
  // As in HandlerOptions (handler.h).
  std::chrono::milliseconds check_interval{std::chrono::seconds(30)};
  std::chrono::milliseconds free_within{std::chrono::seconds(10)};
  std::chrono::milliseconds patience{std::chrono::seconds(10)};
  size_t workers = 16;
  size_t max_queued = 1024;  // more calls get UNAVAILABLE
};

class CrustHandler {
 public:
  // FAILED_PRECONDITION: another handler uses the folder or a socket. INVALID_ARGUMENT: an option
  // is wrong. Other errors: a folder, record, mount or socket cannot be read or made.
  static base::StatusOr<std::unique_ptr<CrustHandler>> Start(const CrustHandlerOptions& options);
  // Accepts no more calls and waits for those that run. The volumes stay mounted.
  virtual ~CrustHandler() = default;
};

}  // namespace berth::crust
