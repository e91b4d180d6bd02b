// The roles of `berth controller`: the controllers of the Go sidecars, each with the sidecar's
// lease and event source, and Berth's own block operator. `berth up` runs the same ones.
//
// A role is a row of the table in roles.cc, and its options are a member of RoleSettings.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/attacher/attacher.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/driverregistrar/driver_registrar.h"
#include "controllers/provisioner/capacity_controller.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/resizer/resizer.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"
#include "controllers/snapshotter/snapshotter.h"

namespace berth::roles {

struct RoleSettings {
  controllers::provisioner::Options provisioner;
  bool enable_capacity = false;
  // Does not hold what comes from the provisioner's options and the environment (NAMESPACE,
  // POD_NAME).
  controllers::provisioner::CapacityOptions capacity;
  double capacity_writes_per_second = 0;  // 0: as many as the API takes
  int capacity_burst = 5;
  controllers::attacher::Options attacher;
  controllers::resizer::Options resizer;
  controllers::snapshotter::Options snapshotter;
  controllers::snapshotcontroller::Options snapshot_controller;
  controllers::driverregistrar::Options driver_registrar;
  // Does not hold the back ends, nor what comes from the environment (POD_NAMESPACE, POD_NAME).
  controllers::blockoperator::Options block_operator;
};

struct Role {
  std::string_view name;
  // True: each driver has this role. False: the cluster has it once, without a driver.
  bool of_driver = true;
  // True: if a driver serves only the volumes of its own node, each node has this role for itself.
  bool of_node = false;
  // The lease under which the Go program does this role's work.
  std::string (*lease)(const std::string& driver) = nullptr;
  // The source of its events.
  std::string (*component)(const std::string& driver, const std::string& host) = nullptr;
  // `driver` is null for a role of the cluster; it outlives the controller.
  std::unique_ptr<controllers::Controller> (*make)(const controllers::Context& context,
                                                   controllers::DriverConnection* driver,
                                                   const RoleSettings& settings) = nullptr;
};

std::span<const Role> AllRoles();
// nullptr: there is none of that name.
const Role* FindRole(std::string_view name);

// Controllers of roles, working together: of the cluster, or of one driver behind one connection.
class RunningRoles {
 public:
  struct Options {
    std::vector<const Role*> roles;
    std::string socket;  // of the driver; empty for roles of the cluster
    controllers::DriverConnection::Options connection = {};
    RoleSettings settings = {};
    // What each role's controller is made with; everything in it must outlive this object.
    std::function<controllers::Context(const Role&)> context;
  };

  // INVALID_ARGUMENT for a path that no socket can have. The driver need not be up.
  static base::StatusOr<std::unique_ptr<RunningRoles>> Make(const Options& options);
  ~RunningRoles();

  // Called once the informers are synced.
  void Start();
  // Starts one role. The first call also starts the connection to the driver.
  void Start(const Role& role);
  // Waits for running work. Idempotent.
  void Stop();
  // Ends the running calls to the driver. Call it before Stop if another process is about to make
  // the same calls.
  void CancelCalls();
  // The driver's last answer about itself; null: there was none yet, or there is no driver.
  std::shared_ptr<const controllers::DriverInfo> driver() const;

 private:
  RunningRoles() = default;

  std::unique_ptr<controllers::DriverConnection> connection_;
  bool connecting_ = false;
  std::vector<std::pair<const Role*, std::unique_ptr<controllers::Controller>>> controllers_;
};

}  // namespace berth::roles
