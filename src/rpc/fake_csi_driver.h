// A CSI driver double in this process, served on a socket in a folder of its own.
//
// It keeps volumes and snapshots as CSI requires (idempotent by name, by volume and path), makes
// and removes target paths, and mounts nothing. A test sees and controls the calls with script().
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

  // Starts to serve. If `socket` is empty, it is in a new folder in /tmp, which the double removes
  // at its end.
  static base::StatusOr<std::unique_ptr<FakeCsiDriver>> Start(Options options = {},
                                                              const std::string& socket = "");
  ~FakeCsiDriver();

  const std::string& socket() const { return socket_; }
  const std::string& name() const { return state_.options().name; }
  CallScript& script() { return script_; }
  FakeCsiState& state() { return state_; }

  // Stops serving, as a driver that exits, and serves again. The volumes stay.
  void GoAway();
  base::Status ComeBack();

 private:
  class Services;
  FakeCsiDriver(Options options, std::string folder, std::string socket);

  const std::string folder_;  // made by this double; empty: the caller gave the socket
  const std::string socket_;
  FakeCsiState state_;
  CallScript script_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<UnixServer> server_;
};

}  // namespace berth::rpc
