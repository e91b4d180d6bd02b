// A node of this machine, as `berth up` and `berth node` run it: the node agent, the CSI driver for
// volumes of this host as a child process (ADR 5), and the controllers of that driver: nobody else
// can make, copy, grow and delete the volumes of this node (ADR 10).
//
//   <data>/                  mode 0700
//     berth.lock             held while `berth up` or `berth node` runs
//     kubelet/               volumes, as the kubelet lays them out (volume/paths.h)
//     node/                  the node agent's records
//     run/nodes/NAME.sock    logs and exec of the node
//     run/utilities.sock     where berth-shim has utilities run in pods
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
  // Of Flexvolume drivers, as vendor~driver/driver; empty: <data>/volume-plugins.
  std::string volume_plugin_folder;
  double overcommit = 2.0;
  // The feature gate MountContainers: utilities run in the pods that are registered for them.
  bool mount_containers = true;
  // Where CRUST handlers find which volumes of a pod are for its sandbox; empty: the node agent's
  // default.
  std::string crust_run_folder;
  // Pods that write, in a sandbox of their own, to a claim which is not ReadWriteOncePod.
  bool refuse_shared_sandbox_writers = false;
  // The agent runs in a container: what mounts on the host does so in the host's mount namespace.
  bool containerized = false;
  // Address of metrics and health, as ":8080" (roles/http_endpoint.h); empty: nowhere.
  std::string http_endpoint;
};

// With what is left open filled in, and absolute paths. INVALID_ARGUMENT: no node is called so, or
// the folder's path is too long for the sockets below it.
base::StatusOr<LocalNodeOptions> Completed(LocalNodeOptions options);

// Makes the folders above, as far as several parts need them, and holds <data> for this process.
// FAILED_PRECONDITION: another one has it.
base::StatusOr<base::UniqueFd> TakeDataFolder(const std::string& data_folder);

// How a process with a node reaches the API: as who may do everything, for its controllers and its
// copies of the objects, and as the node, for what the agent writes and reads by itself.
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
    // What the driver needs once in a cluster is done here, too: attaching its volumes, its
    // CSIDriver object, and what names no node.
    bool first_of_cluster = false;
  };

  // Before the informers start; everything is borrowed and outlives the node. The agent and the
  // driver run from then on. FAILED_PRECONDITION: another agent has the folder.
  static base::StatusOr<std::unique_ptr<LocalNode>> Start(const LocalNodeOptions& options,
                                                          const Surroundings& surroundings);
  // The informers have ended.
  virtual ~LocalNode() = default;
  // Once the informers are synced.
  virtual void StartControllers() = 0;
  // Waits for running work. Pods keep running, as with a kubelet.
  virtual void Stop() = 0;
};

}  // namespace berth::cmd
