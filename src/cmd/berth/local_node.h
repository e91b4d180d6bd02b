// A node of this machine, as `berth up` and `berth node` run it: the node agent, the CSI driver for
// volumes of this host as a child process (ADR 5), and the controllers of that driver, because no
// other process can make, copy, grow and delete the volumes of this node (ADR 10).
//
//   <data>/                  mode 0700
//     berth.lock             held while `berth up` or `berth node` runs
//     kubelet/               volumes, as the kubelet lays them out (volume/paths.h)
//     node/                  the node agent's records
//     run/nodes/NAME.sock    logs and exec of the node
//     run/utilities.sock     where berth-shim asks for utilities to be run in pods
//     flight/ROLE.flight     what each role last did with each volume (base/flight.h)
//     pod-logs/  pool/       containers' output; volumes' images
//     volume-plugins/        Flexvolume drivers
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "api/object.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"

namespace berth::cmd {

struct LocalNodeOptions {
  std::string data_folder = "/var/lib/berth";
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
  double overcommit = 2.0;
  // The feature gate MountContainers: utilities run in the pods that are registered for them.
  bool mount_containers = true;
  // The folder in which CRUST handlers find out which volumes of a pod they are to mount in its
  // sandbox; empty: the node agent's default.
  std::string crust_run_folder;
  // Refuses pods that write, in a sandbox of their own, to a claim that is not ReadWriteOncePod;
  // false: warns of them.
  bool refuse_shared_sandbox_writers = false;
  // The agent runs in a container, and so mounts on the host in the host's mount namespace.
  bool containerized = false;
  // Address of metrics and health, as ":8080" (roles/http_endpoint.h); empty: nowhere.
  std::string http_endpoint;
};

// Fills in the defaults of empty options, and makes paths absolute. INVALID_ARGUMENT: no node can
// have this name, or the folder's path is too long for the sockets below it.
base::StatusOr<LocalNodeOptions> Completed(LocalNodeOptions options);

// Makes those of the folders above that several parts need, and locks <data> for this process.
// FAILED_PRECONDITION: another process has locked it.
base::StatusOr<base::UniqueFd> TakeDataFolder(const std::string& data_folder);

// How a process with a node reaches the API. `client` may do everything: controllers and informers
// use it. `node_client` acts as the node: the agent uses it for what it writes and reads itself.
struct ApiAccess {
  static base::StatusOr<std::unique_ptr<ApiAccess>> New(kube::Config config,
                                                        const std::string& node_name,
                                                        const base::Clock& clock);

  std::unique_ptr<kube::Client> client, node_client;
  std::unique_ptr<kube::EventRecorder> controller_events, node_events;
  std::unique_ptr<kube::Informers> informers;
};

// The name of the shipped driver.
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

  // Starts the agent and the driver. Call it before the informers start. Everything is borrowed and
  // must outlive the node. FAILED_PRECONDITION: another agent has the folder.
  static base::StatusOr<std::unique_ptr<LocalNode>> Start(const LocalNodeOptions& options,
                                                          const Surroundings& surroundings);
  // The informers must have been stopped before.
  virtual ~LocalNode() = default;
  // Call it once the informers are synced.
  virtual void StartControllers() = 0;
  // Waits for running work. Pods keep running, as with a kubelet.
  virtual void Stop() = 0;
};

}  // namespace berth::cmd
