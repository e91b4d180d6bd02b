// Everything that `berth up` runs, wired together: the API, the controllers, the node agent, and
// the shipped CSI driver as a process of its own.
//
//   <data>/                  mode 0700
//     berth.lock             held while `berth up` runs
//     api.sock  kubeconfig   how to reach the API; node.kubeconfig: as the node agent
//     api/objects.db         the store        api/pki/  certificates
//     api/tokens.json        people's tokens, hashed
//     kubelet/               volumes, as the kubelet lays them out (volume/paths.h)
//     node/                  the node agent's records
//     run/nodes/NAME.sock    logs and exec of the node
//     flight/ROLE.flight     what each role last did with each volume (base/flight.h)
//     pod-logs/  pool/       containers' output; volumes' images
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::cmd {

struct UpOptions {
  std::string data_folder = "/var/lib/berth";
  std::string node_name;  // empty: the host's name
  uint16_t port = 6443;
  std::string runtime_endpoint = "unix:///run/containerd/containerd.sock";
  std::string pool_folder;  // empty: <data>/pool
  double overcommit = 2.0;
  std::vector<std::string> csi_drivers;  // sockets of further drivers whose controllers are to run
};

// <data>/api/objects.db
std::string DatabasePath(const std::string& data_folder);
// <data>/api/tokens.json
std::string TokenPath(const std::string& data_folder);

class Standalone {
 public:
  // Returns when all parts have started. FAILED_PRECONDITION: another process runs on the folder.
  static base::StatusOr<std::unique_ptr<Standalone>> Start(const UpOptions& options);
  // Ends the parts in reverse order. Pods keep running, as with a kubelet.
  virtual ~Standalone() = default;
};

}  // namespace berth::cmd
