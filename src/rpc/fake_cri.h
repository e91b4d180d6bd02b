// A container runtime double in this process, served on a socket in a folder of its own.
//
// Sandboxes and containers have states but no processes: a started container runs until a test ends
// it (state().Exit) or a call stops it. A test sees and controls the calls with script().
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "rpc/fake_call_script.h"
#include "rpc/fake_cri_state.h"
#include "rpc/unix_server.h"

namespace berth::rpc {

class FakeCri {
 public:
  static base::StatusOr<std::unique_ptr<FakeCri>> Start(
      FakeRuntime kind = FakeRuntime::kContainerd);
  ~FakeCri();

  const std::string& socket() const { return socket_; }
  CallScript& script() { return script_; }
  FakeCriState& state() { return state_; }

  // Stops serving, as a runtime that is restarted, and serves again. Sandboxes and containers stay.
  void GoAway();
  base::Status ComeBack();

 private:
  class Services;
  FakeCri(FakeRuntime kind, std::string folder);

  const FakeRuntime kind_;
  const std::string folder_;
  const std::string socket_;
  FakeCriState state_;
  CallScript script_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Services> services_;
  std::unique_ptr<UnixServer> server_;
};

}  // namespace berth::rpc
