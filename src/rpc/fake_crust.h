// A double of a container runtime handler in this process, served on a socket in a folder of its
// own.
//
// It keeps which volumes are in which sandbox and mounts nothing. A test sees and controls the
// calls with script(). Clients accept it as the handler only if the test runs as root
// (crust_client.h). Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "proto/crust.grpc.pb.h"
#include "rpc/crust_client.h"
#include "rpc/fake_call_script.h"
#include "rpc/unix_server.h"

namespace berth::rpc {

class FakeCrust {
 public:
  using Capability = crust::RuntimeCapability::RPC;

  // The capabilities and volumes that it reports; a test may change them between calls.
  struct Options {
    std::vector<Capability::Type> capabilities = {Capability::FS_GROUP_CHANGE_POLICY_ALWAYS,
                                                  Capability::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH,
                                                  Capability::SUBPATH,
                                                  Capability::SELINUX_RELABEL,
                                                  Capability::SELINUX_RELABEL_ON_MOUNT,
                                                  Capability::VOLUME_STATS,
                                                  Capability::VOLUME_RESIZE};
    std::vector<std::string> file_systems = {"ext4", "xfs"};
    int64_t total_bytes = 1 << 20;
    std::string abnormal;             // the message of an abnormal volume condition; empty: normal
    int64_t most_capacity_bytes = 0;  // the most to which a volume grows; 0: no bound
  };

  static base::StatusOr<std::unique_ptr<FakeCrust>> Start();
  ~FakeCrust();

  const std::string& socket() const { return socket_; }
  CallScript& script() { return script_; }
  Options& options() { return options_; }
  void Lose(Capability::Type capability);

  // By sandbox and target path.
  using Published =
      std::map<std::pair<std::string, std::string>, crust::RuntimePublishVolumeRequest>;
  Published published() const;

 private:
  class Service;
  explicit FakeCrust(std::string folder);

  const std::string folder_;
  const std::string socket_;
  CallScript script_;
  Options options_;
  mutable base::Mutex mutex_;
  Published published_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Service> service_;
  std::unique_ptr<UnixServer> server_;
};

}  // namespace berth::rpc
