// Stands at the socket at which an unmodified kubelet finds a CSI driver, so that runtime handlers
// can mount the driver's volumes in sandboxes (KEP-2857; docs/adr/0044).
//
//   kubelet ──▶ the proxy's socket ──▶ the driver's socket
//                        └───────────▶ the socket of the pod's runtime handler
//
// Calls that concern no such volume reach the driver as they came. Its records survive a restart,
// and while it is away the kubelet tries again.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace berth::crustproxy {

struct CrustProxyOptions {
  std::string socket;       // where the kubelet is to find the driver
  std::string csi_address;  // the driver's socket
  std::string node;         // the Node's name; empty: the host's
  std::string kubelet_folder = "/var/lib/kubelet";
  std::string data_folder = "/var/lib/berth/crust-proxy";
  std::string kubeconfig;  // empty: the pod's service account, or kubectl's file
  // Refuses a pod that writes to a volume in its sandbox if the volume is not ReadWriteOncePod.
  bool refuse_shared_writers = false;
};

class CrustProxy {
 public:
  // Serves until the destructor. Errors: another proxy uses the folder or the socket, a record is
  // damaged, or there is no way to reach the API. Neither the driver, the API nor a handler need be
  // up.
  static base::StatusOr<std::unique_ptr<CrustProxy>> Start(const CrustProxyOptions& options);
  virtual ~CrustProxy() = default;
};

}  // namespace berth::crustproxy
