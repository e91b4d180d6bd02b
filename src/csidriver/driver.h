// The CSI driver that Berth ships. It makes the volumes of one node from image files in a pool
// folder.
//
// It serves the services Identity, Controller, GroupController and Node on one UNIX socket, and
// announces itself to the kubelet or Berth's node agent by a registration socket. All state is in
// the pool folder, the mount table and the loop devices: a new driver on the same folder continues
// where the last one stopped, and volumes in use stay in use meanwhile.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::csidriver {

struct DriverOptions {
  std::string name = "local.csi.berth.dev";
  std::string version = "0.1.0";
  std::string node_id;              // of NodeGetInfo; also the value of the topology segment
  std::string pool_folder;          // made if missing
  std::string endpoint;             // path of the socket, in a folder that is made if missing
  std::string registration_folder;  // the kubelet's plugins_registry; empty: no registration
  double overcommit = 2.0;          // see block::PoolOptions
  double inline_share = 0.25;       // see block::PoolOptions
  std::optional<int64_t> keep_free = std::nullopt;  // see block::PoolOptions
  std::chrono::milliseconds freeze_limit{std::chrono::seconds(30)};
  // Calls that run at once, separately for the controller and the node. At most half of them make
  // copies, or check and grow file systems.
  size_t workers = 8;
  size_t max_queued = 1024;      // waiting calls of each; more get UNAVAILABLE
  std::string flight_file = "";  // its flight record (base/flight.h); empty: none
  // Runs mkfs, fsck and the like; borrowed. Null: on this host. What it runs them in may come and
  // go, so a file system that it cannot make at the start is looked for again when it is asked for.
  platform::Exec* exec = nullptr;
  // How often it looks whether the kubelet's folder is mounted, for volumes of pods that are gone.
  std::chrono::milliseconds look_again{std::chrono::seconds(10)};
};

class Driver {
 public:
  // Opens the pool, finishes or undoes the changes that a crash interrupted, and serves.
  // INVALID_ARGUMENT: an option is wrong. FAILED_PRECONDITION: another process has the pool or the
  // socket, or this host supports no file system and `exec` is null.
  static base::StatusOr<std::unique_ptr<Driver>> Start(const DriverOptions& options);

  // Stops serving and waits for running calls. Leaves every volume as it is.
  virtual ~Driver() = default;

  // "topology.NAME/node", the key of the one topology segment.
  static std::string TopologyKey(const std::string& driver_name);
};

}  // namespace berth::csidriver
