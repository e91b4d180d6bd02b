// Announces a CSI driver to the kubelet (in Kubernetes: the sidecar node-driver-registrar).
//
//   [waiting] ── the driver says its name ──▶ [announced: <folder>/<driver>-reg.sock is served]
//       ▲                                         │ driver's socket is a new one: it was restarted
//       └─────────────────────────────────────────┤
//                                                 │ our socket is gone: the kubelet's folder was
//                                                 └─▶ emptied, announced anew
//
// A driver that was replaced is announced anew, because the kubelet asks the driver about its node
// (NodeGetInfo) only at an announcement. A kubelet that refuses the driver, or is not there yet,
// tries again by itself while the socket exists. None of this ends the process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::roles {

class Registrar {
 public:
  struct Options {
    std::string csi_address;
    std::string folder;                       // of registration sockets
    std::string kubelet_path;                 // the driver's socket as the kubelet finds it
    std::chrono::milliseconds timeout{1000};  // of each call of the driver
    std::chrono::milliseconds retry{1000};
  };

  // INVALID_ARGUMENT for paths that no socket can have. The driver and the folder need not be
  // there.
  static base::StatusOr<std::unique_ptr<Registrar>> Start(Options options);
  virtual ~Registrar() = default;

  // OK while the driver is announced; else why not.
  virtual base::Status Health() const = 0;
};

}  // namespace berth::roles
