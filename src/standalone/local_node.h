// The parts that `berth up` and `berth node` run for the node of this machine: the node agent, the
// CSI driver for volumes of this host as a child process (ADR 5), and the controllers of that
// driver, because no other process can create, copy, grow and delete the volumes of this node (ADR
// 10).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/object.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/status.h"
#include "platform/processes/exec.h"
#include "standalone/api_access.h"
#include "standalone/data_folder.h"

namespace berth::standalone {

struct LocalNodeOptions {
  std::string data_folder = kDefaultDataFolder;
  std::string node_name;  // empty: the host's name
  api::Labels labels;     // of the Node, besides the well-known ones
  std::chrono::milliseconds lease_duration{40'000};
  std::string runtime_endpoint = "unix:///run/containerd/containerd.sock";
  std::string node_sockets;    // empty: <data>/run/nodes
  std::string utility_socket;  // of berth-shim; empty: <data>/run/utilities.sock
  std::string pool_folder;     // empty: <data>/pool
  // The folder of Flexvolume drivers, with vendor~driver/driver in it; empty:
  // <data>/volume-plugins.
  std::string volume_plugin_folder;
  // Of the pool; see block::PoolOptions.
  double overcommit = 2.0;
  double inline_share = 0.25;
  std::optional<int64_t> keep_free;
  // The feature gate MountContainers: utilities run in the pods that are registered for them.
  bool mount_containers = true;
  // The folder of the plans, which name the volumes of a pod that a CRUST handler mounts in its
  // sandbox; empty: the node agent's default.
  std::string crust_run_folder;
  // True: refuses pods that write, in a sandbox of their own, to a claim that is not
  // ReadWriteOncePod. False: warns about such pods.
  bool refuse_shared_sandbox_writers = false;
  // The agent runs in a container, and so mounts on the host in the host's mount namespace.
  bool containerized = false;
  // Address of metrics and health, such as ":8080" (roles/http_endpoint.h); empty: not served.
  std::string http_endpoint;
};

// Fills in the defaults of empty options, and makes paths absolute. INVALID_ARGUMENT: the node's
// name is not a DNS subdomain, or the data folder's path is too long for the sockets below it.
base::StatusOr<LocalNodeOptions> CompleteOptions(LocalNodeOptions options);

// The name of the CSI driver that Berth ships.
std::string LocalDriverName();

class LocalNode {
 public:
  struct Surroundings {
    ApiAccess& api;
    const base::Clock& clock;
    base::FlightRecorder* flight = nullptr;  // of the controllers
    // This node also does what the driver needs only once in a cluster: it attaches the volumes,
    // keeps the CSIDriver object, and takes snapshots that name no node.
    bool first_of_cluster = false;
  };

  // Starts the agent and the driver. Call it before the informers start. What `surroundings` refers
  // to must outlive the node. FAILED_PRECONDITION: another agent uses the folder.
  static base::StatusOr<std::unique_ptr<LocalNode>> Start(const LocalNodeOptions& options,
                                                          const Surroundings& surroundings);
  // Stops the node. The informers must have been stopped before.
  virtual ~LocalNode() = default;
  // Call it once the informers have synced.
  virtual void StartControllers() = 0;
  // The Exec with which the node agent runs the utilities of `plugin`, for controllers of this
  // process: in the pod that is registered for the plugin on this machine, else on this machine.
  // It lives as long as the node. After Stop nothing runs in pods.
  virtual platform::Exec& exec(std::string_view plugin) = 0;
  // Waits for running work. Pods keep running, as with a kubelet.
  virtual void Stop() = 0;
};

}  // namespace berth::standalone
