// Announces a CSI driver to the kubelet (in Kubernetes: the sidecar node-driver-registrar).
//
//   [waiting] ── driver's name is known ──▶ [announced: <folder>/<driver>-reg.sock is served]
//       ▲                                       │   │                       ▲
//       ├── our socket is gone ─────────────────┘   │ the driver's socket   │ NodeGetInfo answers
//       │                                           │ is a new file         │ as before
//       │                                           ▼                       │
//       └── NodeGetInfo answers otherwise ─── [restarted: still served] ────┘
//
// A driver stays announced while our socket exists, also while the driver is away. When the socket
// is removed, the kubelet takes the driver out of CSINode, and while it is served the kubelet needs
// no help: one that refused the driver tries again, and one that starts later finds the socket. The
// kubelet calls NodeGetInfo only after an announcement. So a driver that was restarted and now
// answers with another node id, number of volumes or topology is announced again: the socket is
// removed and served anew. A driver whose answer stays the same is not. If the driver did not
// answer before the announcement, its first answer counts as that of the announcement. If our
// socket is gone because the kubelet's folder was emptied, the driver is announced again as soon as
// it answers. No failure ends the process.
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

  // Asks the registration socket for its driver, as the kubelet does; blocks for at most `timeout`.
  // NOT_FOUND: no registration socket exists, with the reason if it is known. UNAVAILABLE: the file
  // there is no socket, or it does not answer with the driver's name. Thread-safe.
  virtual base::Status CheckHealth() const = 0;
};

}  // namespace berth::roles
