// The node agent: pods through CRI, their volumes, CSI drivers' registration, the Node object, host
// mounts, logs and exec, wired together.
//
//   <data_folder>/lock, pods/, volumes/, host-mounts/     this agent's records; one agent a folder
//   <kubelet_folder>/                                     volumes and plugins (volume/paths.h);
//                                                         a shared mount
//   <log_folder>/<namespace>_<name>_<uid>/                containers' output
//   <node_sockets>/<node name>.sock                       logs and exec, for the API server
//
// Works without a container runtime, and without an API: each is waited for, and pods say so.
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
#include "kube/informer.h"
#include "volume/host.h"
#include "volume/plugin_prober.h"
#include "volume/utilities.h"
#include "volume/volume_plugin.h"

namespace berth::node {

struct NodeAgentOptions {
  std::string node_name;
  std::string data_folder;  // of this agent alone
  std::string kubelet_folder;
  std::string cri_endpoint;  // "unix:///run/containerd/containerd.sock", or a path
  std::string node_sockets;  // a folder
  std::string log_folder = "/var/log/pods";
  // The folder in or above which no HostMount may be mounted; empty: data_folder. Standalone: the
  // whole of <data>.
  std::string own_folder = "";
  api::Labels labels = {};  // of the Node, besides the well-known ones
  std::chrono::milliseconds lease_duration{40'000};
  std::string version = "v1.30.0-berth";  // Node.status.nodeInfo.kubeletVersion
  // True: the agent watches only the pods of this node, because the process has no other use for
  // pods.
  bool own_pods_only = false;
  // The node's flight record, in a folder that is there (base/flight.h); empty: none.
  std::string flight_file = "";
  // Where shims have utilities run in pods (node/utilities/utility_service.h); empty: nowhere.
  std::string utility_socket = "";
  // Where runtime handlers find which volumes of a pod they mount (base/ipc/crust_call.h).
  std::string crust_run_folder = "/run/berth/crust";
  // A pod in a sandbox of its own may write to a volume only if its claim is ReadWriteOncePod;
  // else an event warns.
  bool refuse_shared_sandbox_writers = false;
  // How plugins run their utilities; none: all on this host.
  volume::MakeUtilities make_utilities = nullptr;
  base::Metrics* metrics = nullptr;  // borrowed; none: no figures
};

class NodeAgent {
 public:
  // The plugins that the agent is built with, and the probers that find more.
  struct Plugins {
    std::vector<std::shared_ptr<volume::VolumePlugin>> fixed;
    std::vector<std::unique_ptr<volume::PluginProber>> probers;
  };
  using MakePlugins = std::function<Plugins(volume::Host& host)>;

  // Before `informers` start; everything is borrowed and outlives the agent. FAILED_PRECONDITION:
  // another agent holds the data folder.
  static base::StatusOr<std::unique_ptr<NodeAgent>> Start(
      const NodeAgentOptions& options, kube::Client& client, kube::Informers& informers,
      base::EventSink& events, const base::Clock& clock, const MakePlugins& make_plugins);
  virtual ~NodeAgent() = default;
  // Ends all work within seconds. Pods and their volumes stay as they are. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace berth::node
