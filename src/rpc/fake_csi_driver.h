// A CSI driver double in this process, served on a socket in a folder of its own.
//
// It keeps volumes and snapshots as CSI asks (idempotent by name, by volume and path), makes and
// removes target paths, and mounts nothing. Its calls can be looked at and steered by script().
// Volumes that the test did not create are made when a node call names them, so that static PVs
// work. Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/status.h"
#include "proto/csi.pb.h"
#include "rpc/fake_call_script.h"
#include "rpc/fake_csi_state.h"
#include "rpc/unix_server.h"

namespace berth::rpc {

class FakeCsiDriver {
 public:
  using Options = FakeCsiState::Options;

  // Serves at once. `socket` empty: in a new folder under /tmp, which goes with the double.
  static base::StatusOr<std::unique_ptr<FakeCsiDriver>> Start(Options options = {},
                                                              const std::string& socket = "");
  ~FakeCsiDriver();

  const std::string& socket() const { return socket_; }
  const std::string& name() const { return state_.options().name; }
  CallScript& script() { return script_; }
  FakeCsiState& state() { return state_; }

  // Leaves the socket, as a driver that exits, and comes back; volumes are kept.
  void GoAway();
  base::Status ComeBack();

 private:
  class Services;
  FakeCsiDriver(Options options, std::string folder, std::string socket);

  const std::string folder_;  // empty: the socket's folder is not ours
  const std::string socket_;
  FakeCsiState state_;
  CallScript script_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<UnixServer> server_;
};

}  // namespace berth::rpc
