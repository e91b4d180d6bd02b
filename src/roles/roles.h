// The roles of `berth controller`: the controllers of the Go sidecars, each with the sidecar's
// lease and event source, and Berth's own block operator. `berth up` runs the same controllers.
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
#include "controllers/provisioner/capacity/capacity_controller.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/resizer/resizer.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"
#include "controllers/snapshotter/snapshotter.h"
#include "platform/processes/exec.h"

namespace berth::roles {

// The lineage (controllers::provisioner::IntentOptions) of a provisioner beside which no other
// program works for its driver.
inline constexpr std::string_view kSoleLineage = "sole";

using ExecOf = std::function<platform::Exec&(std::string_view plugin)>;

struct RoleSettings {
  controllers::provisioner::Options provisioner;
  bool topology = true;  // the feature gate Topology of the provisioner
  bool enable_capacity = false;
  // MakeProvisionerRole copies the members timeout, retry_start, retry_max and
  // node_name from `provisioner`, and sets empty `ns` and `pod_name` from the environment
  // (NAMESPACE, POD_NAME).
  controllers::provisioner::CapacityOptions capacity;
  double capacity_writes_per_second = 0;  // 0: as many as the API takes
  int capacity_burst = 5;
  controllers::attacher::Options attacher;
  controllers::resizer::Options resizer;
  controllers::snapshotter::Options snapshotter;
  controllers::snapshotcontroller::Options snapshot_controller;
  controllers::driverregistrar::Options driver_registrar;
  // MakeBlockOperatorRole sets open_backend, and the members of `agents` that come from the
  // environment.
  controllers::blockoperator::Options block_operator;
  // Returns the Exec that runs the utilities of a plugin for controllers (volume/utilities.h). It
  // is called once a role has started. Empty: they run where this process runs.
  ExecOf exec_of;
};

struct Role {
  std::string_view name;
  // True: each driver has this role. False: the cluster has it once, without a driver.
  bool of_driver = true;
  // True: if a driver serves only the volumes of its own node, each node has this role for itself.
  bool of_node = false;
  // Returns the name of the lease under which the Go program does this role's work. `driver` is ""
  // for a role of the cluster.
  std::string (*lease)(const std::string& driver) = nullptr;
  // Returns source.component of the role's events.
  std::string (*component)(const std::string& driver, const std::string& host) = nullptr;
  // Makes the role's controller. `driver` is null for a role of the cluster, and must outlive the
  // controller.
  std::unique_ptr<controllers::Controller> (*make)(const controllers::Context& context,
                                                   controllers::DriverConnection* driver,
                                                   const RoleSettings& settings) = nullptr;
};

std::span<const Role> AllRoles();
// Returns nullptr if no role has this name.
const Role* FindRole(std::string_view name);

// The controllers of several roles: of roles of the cluster, or of roles of one driver, which share
// one connection to it.
class RunningRoles {
 public:
  struct Options {
    std::vector<const Role*> roles;
    std::string socket;  // of the driver; empty for roles of the cluster
    controllers::DriverConnection::Options connection = {};
    RoleSettings settings = {};
    // Returns the context of each role's controller. What the context refers to must outlive this
    // object.
    std::function<controllers::Context(const Role&)> context;
  };

  // INVALID_ARGUMENT: `socket` is a path that no socket can have. Succeeds also while the driver
  // does not run.
  static base::StatusOr<std::unique_ptr<RunningRoles>> Make(const Options& options);
  ~RunningRoles();

  // Starts all roles. Call it once the informers have synced.
  void Start();
  // Starts one role. The first call also starts the connection to the driver.
  void Start(const Role& role);
  // Waits for running work. Idempotent.
  void Stop();
  // Ends the running calls to the driver. Call it before Stop if another process is about to make
  // the same calls.
  void CancelCalls();
  // The driver's last answer about itself; null if it has not answered yet, or for roles of the
  // cluster.
  std::shared_ptr<const controllers::DriverInfo> driver() const;

 private:
  RunningRoles() = default;

  std::unique_ptr<controllers::DriverConnection> connection_;
  bool connecting_ = false;
  std::vector<std::pair<const Role*, std::unique_ptr<controllers::Controller>>> controllers_;
};

}  // namespace berth::roles
