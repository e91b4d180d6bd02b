// The node agent: it runs pods through CRI, mounts their volumes, registers CSI drivers, keeps the
// Node object, mounts claims on the host (HostMount), and serves logs and exec. NodeAgent makes
// these parts and connects them.
//
//   <data_folder>/lock, pods/, volumes/, host-mounts/     the records of this agent alone
//   <kubelet_folder>/                                     volumes and plugins (volume/paths.h);
//                                                         a shared mount
//   <log_folder>/<namespace>_<name>_<uid>/                containers' output
//   <node_sockets>/<node name>.sock                       logs and exec, for the API server
//
// Works without a container runtime and without an API: the agent waits for each of them. While the
// runtime is missing, the pods' status says so.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/object.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/metrics.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/informers/informers.h"
#include "node/containers/cri_state.h"
#include "volume/host.h"
#include "volume/plugin_prober.h"
#include "volume/utilities.h"
#include "volume/volume_plugin.h"

namespace berth::node {

struct NodeAgentOptions {
  std::string node_name;
  std::string data_folder;  // used by this agent alone
  std::string kubelet_folder;
  std::string cri_endpoint;  // "unix:///run/containerd/containerd.sock", or a path
  CriListWaits cri_lists = {};
  std::string node_sockets;  // the folder of the socket for logs and exec; made if missing
  std::string log_folder = "/var/log/pods";
  // No HostMount may be mounted in or above this folder. Empty: data_folder. In standalone mode it
  // is the whole of <data>.
  std::string own_folder = "";
  api::Labels labels = {};  // of the Node, besides the well-known ones
  std::chrono::milliseconds lease_duration{40'000};
  std::string version = "v1.30.0-berth";  // Node.status.nodeInfo.kubeletVersion
  // True: the agent watches only the pods of this node, because the process has no other use for
  // pods.
  bool own_pods_only = false;
  // The file of the node's flight record (base/flight.h), in a folder that exists; empty: none.
  std::string flight_file = "";
  // The socket on which shims ask to run utilities in pods (node/utilities/utility_service.h);
  // empty: none.
  std::string utility_socket = "";
  // The folder of the plan files, which name the volumes that a pod's runtime handler mounts
  // (base/ipc/crust_call.h).
  std::string crust_run_folder = "/run/berth/crust";
  // If true, a pod in a sandbox of its own may write to a volume only if the claim is
  // ReadWriteOncePod. If false, an event warns of other claims.
  bool refuse_shared_sandbox_writers = false;
  // How plugins run their utilities; null: all of them run on this host.
  volume::MakeUtilities make_utilities = nullptr;
  base::Metrics* metrics = nullptr;  // borrowed; null: no metrics
};

class NodeAgent {
 public:
  // The plugins that the agent is built with, and the probers that find more.
  struct Plugins {
    std::vector<std::shared_ptr<volume::VolumePlugin>> fixed;
    std::vector<std::unique_ptr<volume::PluginProber>> probers;
  };
  using MakePlugins = std::function<Plugins(volume::Host& host)>;

  // Call it before `informers` start, because it adds handlers to them. Everything but the options
  // is borrowed and must outlive the agent. FAILED_PRECONDITION: another agent has locked the data
  // folder. Other errors come from the folders, the records, the plugins and the sockets.
  static base::StatusOr<std::unique_ptr<NodeAgent>> Start(
      const NodeAgentOptions& options, kube::Client& client, kube::Informers& informers,
      base::EventSink& events, const base::Clock& clock, const MakePlugins& make_plugins);
  virtual ~NodeAgent() = default;
  // Ends all work within seconds. Pods and their volumes stay as they are. Unmounts the kubelet
  // folder's own bind mount if no pod is on the node and nothing is mounted below the folder.
  // Idempotent; not thread-safe.
  virtual void Stop() = 0;
};

}  // namespace berth::node
