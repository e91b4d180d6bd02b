// A client of a container runtime handler that mounts volumes in sandboxes (proto/crust).
//
// The requests name the devices to mount, so each call makes a connection and sends only to a
// process of the user that the handler runs as (SO_PEERCRED). Every call has a deadline and blocks
// the caller; it passes the fault points "rpc.crust.METHOD.before" and ".after". UNAVAILABLE: no
// process listens; if a request was sent, the outcome is unknown. PERMISSION_DENIED: a process of
// another user listens. WasNotSent (outcome.h) tells whether no request was sent. Thread-safe.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "proto/crust.pb.h"
#include "rpc/outcome.h"

namespace berth::rpc {

namespace crust = ::crust::v1alpha1;

class CrustClient {
 public:
  // `socket` is as in RuntimeClass.fsMgmtSocket. INVALID_ARGUMENT: it is not the path of a socket.
  // The handler need not be up. `uid` is the user that the handler runs as.
  static base::StatusOr<std::unique_ptr<CrustClient>> New(const std::string& socket, uid_t uid = 0);
  const std::string& socket() const { return socket_; }

#define BERTH_CRUST_RPCS(X)         \
  X(RuntimeGetCapabilities)         \
  X(RuntimeGetSupportedFileSystems) \
  X(RuntimePublishVolume)           \
  X(RuntimeUnpublishVolume)         \
  X(RuntimeGetVolumeStats)          \
  X(RuntimeExpandVolume)
#define BERTH_DECLARE(method)                                                           \
  base::StatusOr<crust::method##Response> method(const crust::method##Request& request, \
                                                 Timeout timeout);
  BERTH_CRUST_RPCS(BERTH_DECLARE)
#undef BERTH_DECLARE

 private:
  CrustClient(std::string socket, uid_t uid) : socket_(std::move(socket)), uid_(uid) {}
  const std::string socket_;
  const uid_t uid_;
};

}  // namespace berth::rpc
