// A client of one CSI driver behind its UNIX socket (CSI v1.12, section "RPC").
//
// Every call has a deadline and blocks the caller. While no process listens, a call fails with
// UNAVAILABLE at once; when the driver is back, the client reconnects. Each call passes the fault
// points "rpc.csi.METHOD.before" and ".after". Requests are logged without secrets (fields marked
// csi_secret). An answer that cannot be read, or exceeds kAnswerLimits, is UNAVAILABLE: the outcome
// is unknown. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "proto/csi.pb.h"
#include "rpc/outcome.h"

namespace berth::rpc {

class CsiClient {
 public:
  // `socket` is the path of the driver's socket, at most 107 bytes (INVALID_ARGUMENT beyond). The
  // driver need not be up.
  static base::StatusOr<std::unique_ptr<CsiClient>> New(const std::string& socket);
  ~CsiClient();

  const std::string& socket() const { return socket_; }

  // One method for each RPC of services Identity, Controller, GroupController and Node, as
  //   base::StatusOr<csi::v1::CreateVolumeResponse> CreateVolume(const
  //   csi::v1::CreateVolumeRequest&, Timeout);
#define BERTH_CSI_RPCS(X)                   \
  X(Identity, GetPluginInfo)                \
  X(Identity, GetPluginCapabilities)        \
  X(Identity, Probe)                        \
  X(Controller, CreateVolume)               \
  X(Controller, DeleteVolume)               \
  X(Controller, ControllerPublishVolume)    \
  X(Controller, ControllerUnpublishVolume)  \
  X(Controller, ValidateVolumeCapabilities) \
  X(Controller, ListVolumes)                \
  X(Controller, GetCapacity)                \
  X(Controller, ControllerGetCapabilities)  \
  X(Controller, CreateSnapshot)             \
  X(Controller, DeleteSnapshot)             \
  X(Controller, ListSnapshots)              \
  X(Controller, GetSnapshot)                \
  X(Controller, ControllerExpandVolume)     \
  X(Controller, ControllerGetVolume)        \
  X(Controller, ControllerModifyVolume)     \
  X(Node, NodeStageVolume)                  \
  X(Node, NodeUnstageVolume)                \
  X(Node, NodePublishVolume)                \
  X(Node, NodeUnpublishVolume)              \
  X(Node, NodeGetVolumeStats)               \
  X(Node, NodeExpandVolume)                 \
  X(Node, NodeGetCapabilities)              \
  X(Node, NodeGetInfo)
  // Those of a driver that takes snapshots of several volumes at one time.
#define BERTH_CSI_GROUP_RPCS(X)                      \
  X(GroupController, GroupControllerGetCapabilities) \
  X(GroupController, CreateVolumeGroupSnapshot)      \
  X(GroupController, DeleteVolumeGroupSnapshot)      \
  X(GroupController, GetVolumeGroupSnapshot)
#define BERTH_DECLARE(service, method)                                                      \
  base::StatusOr<csi::v1::method##Response> method(const csi::v1::method##Request& request, \
                                                   Timeout timeout);
  BERTH_CSI_RPCS(BERTH_DECLARE)
  BERTH_CSI_GROUP_RPCS(BERTH_DECLARE)
#undef BERTH_DECLARE

  // Ends the calls that run, and every later one, with CANCELLED, so that a process that shuts down
  // need not wait for a driver that hangs. The outcome of such a call is unknown.
  void CancelAll();

 private:
  struct Stubs;
  CsiClient(std::string socket, std::unique_ptr<Stubs> stubs);

  const std::string socket_;
  const std::unique_ptr<Stubs> stubs_;
};

}  // namespace berth::rpc
