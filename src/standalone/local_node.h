// The parts that `berth up` and `berth node` run for the node of this machine: the node agent, the
// CSI driver for volumes of this host as a child process (ADR 5), and the controllers of that
// driver, because no other process can create, copy, grow and delete the volumes of this node (ADR
// 10).
//
//   <data>/                  mode 0700, unless it was there before and serves others as well
//                            (platform::MakeNamedFolder)
//     berth.lock             held while `berth up` or `berth node` runs
//     .berth-reserve         room for deletions on a full disk (platform/files/disk_reserve.h)
//     kubelet/               volumes, as the kubelet lays them out (volume/paths.h)
//     node/                  the node agent's records
//     run/nodes/NAME.sock    logs and exec of the node
//     run/utilities.sock     socket at which berth-shim has utilities run in pods
//     flight/ROLE.flight     the last calls and steps of each role, by volume (base/flight.h)
//     pod-logs/  pool/       containers' output; volumes' images
//     volume-plugins/        Flexvolume drivers
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
#include "base/unique_fd.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/event_recorder.h"
#include "kube/informers/informers.h"
#include "platform/processes/exec.h"

namespace berth::standalone {

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

// Creates those of the folders above that several parts need, and locks <data> while the returned
// descriptor is open. FAILED_PRECONDITION: another process has locked it.
base::StatusOr<base::UniqueFd> LockDataFolder(const std::string& data_folder);

// The clients of a process with a node. `client` has all rights; controllers and informers use it.
// `node_client` has the rights of the node; the agent uses it for its own reads and writes.
struct ApiAccess {
  // Makes a client that acts as `user` with `groups`; empty: as whom the program acts.
  using MakeClient = std::function<base::StatusOr<std::unique_ptr<kube::Client>>(
      const std::string& user, const std::vector<std::string>& groups)>;
  static base::StatusOr<std::unique_ptr<ApiAccess>> New(const MakeClient& make_client,
                                                        const std::string& node_name,
                                                        const base::Clock& clock);

  std::unique_ptr<kube::Client> client, node_client;
  std::unique_ptr<kube::EventRecorder> controller_events, node_events;
  std::unique_ptr<kube::Informers> informers;
};

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
