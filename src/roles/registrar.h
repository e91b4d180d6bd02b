// Announces a CSI driver to the kubelet (in Kubernetes: the sidecar node-driver-registrar).
//
//   [waiting] ── driver's name is known ────▶ [announced: <folder>/<driver>-reg.sock is served]
//       ▲                                         │ driver's socket is a new one: it was restarted
//       └─────────────────────────────────────────┤
//                                                 │ our socket is gone: the kubelet's folder was
//                                                 └─▶ emptied, announce again
//
// A driver that was restarted is announced again, because the kubelet calls NodeGetInfo only after
// an announcement. While the socket exists, a kubelet that refused the driver tries again without
// help, and a kubelet that starts later finds the socket. No failure ends the process.
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
    std::string kubelet_path;                 // the driver's socket, as a path of the host
    std::chrono::milliseconds timeout{1000};  // of each call to the driver
    std::chrono::milliseconds retry{1000};    // from a failed attempt to the next
  };

  // INVALID_ARGUMENT: a path is empty or cannot be the path of a socket. Succeeds also while the
  // driver and the folder do not exist.
  static base::StatusOr<std::unique_ptr<Registrar>> Start(Options options);
  virtual ~Registrar() = default;

  // Returns OK while the driver is announced, and otherwise the reason why it is not. Thread-safe.
  virtual base::Status CheckHealth() const = 0;
};

}  // namespace berth::roles
