#include "roles/roles.h"

#include <algorithm>
#include <array>

#include "api/kinds/lease_names.h"
#include "base/ids.h"
#include "roles/block_operator_role.h"
#include "roles/provisioner_role.h"

namespace berth::roles {

namespace {

using controllers::Context;
using controllers::Controller;
using controllers::DriverConnection;
using std::string;

string ProvisionerComponent(const string& driver, const string& host) {
  return fmt::format("{}_{}_{}", driver, host, base::NewUuid());
}
string AttacherComponent(const string& driver, const string&) {
  return "external-attacher " + driver;
}
string ResizerComponent(const string& driver, const string&) {
  return "external-resizer " + driver;
}
string SnapshotterComponent(const string& driver, const string&) {
  return "csi-snapshotter " + driver;
}
string SnapshotControllerComponent(const string&, const string&) { return "snapshot-controller"; }
string BlockOperatorComponent(const string&, const string&) { return "berth-block-operator"; }
string DriverRegistrarComponent(const string& driver, const string&) {
  return "cluster-driver-registrar " + driver;
}

// Makes a driver's controller of class C; `Member` is the settings' member with its options.
template <typename C, auto Member>
std::unique_ptr<Controller> MakeForDriver(const Context& context, DriverConnection* driver,
                                          const RoleSettings& settings) {
  return std::make_unique<C>(context, *driver, settings.*Member);
}
// Makes a controller of the cluster in the same way.
template <typename C, auto Member>
std::unique_ptr<Controller> MakeForCluster(const Context& context, DriverConnection*,
                                           const RoleSettings& settings) {
  return std::make_unique<C>(context, settings.*Member);
}

constexpr std::array kRoles = {
    Role{.name = "provisioner",
         .of_node = true,
         .lease = api::ProvisionerLease,
         .component = ProvisionerComponent,
         .make = MakeProvisionerRole},
    Role{.name = "attacher",
         .lease = api::AttacherLease,
         .component = AttacherComponent,
         .make = MakeForDriver<controllers::attacher::Attacher, &RoleSettings::attacher>},
    Role{.name = "resizer",
         .of_node = true,
         .lease = api::ResizerLease,
         .component = ResizerComponent,
         .make = MakeForDriver<controllers::resizer::Resizer, &RoleSettings::resizer>},
    Role{.name = "snapshotter",
         .of_node = true,
         .lease = api::SnapshotterLease,
         .component = SnapshotterComponent,
         .make = MakeForDriver<controllers::snapshotter::Snapshotter, &RoleSettings::snapshotter>},
    Role{.name = "snapshot-controller",
         .of_driver = false,
         .lease = api::SnapshotControllerLease,
         .component = SnapshotControllerComponent,
         .make = MakeForCluster<controllers::snapshotcontroller::SnapshotController,
                                &RoleSettings::snapshot_controller>},
    Role{.name = "driver-registrar",
         .lease = api::DriverRegistrarLease,
         .component = DriverRegistrarComponent,
         .make = MakeForDriver<controllers::driverregistrar::DriverRegistrar,
                               &RoleSettings::driver_registrar>},
    Role{.name = "block-operator",
         .of_driver = false,
         .lease = api::BlockOperatorLease,
         .component = BlockOperatorComponent,
         .make = MakeBlockOperatorRole},
};

}  // namespace

std::span<const Role> AllRoles() { return kRoles; }

const Role* FindRole(std::string_view name) {
  const auto found = std::find_if(kRoles.begin(), kRoles.end(),
                                  [&](const Role& role) { return role.name == name; });
  return found == kRoles.end() ? nullptr : &*found;
}

base::StatusOr<std::unique_ptr<RunningRoles>> RunningRoles::Make(const Options& options) {
  std::unique_ptr<RunningRoles> running(new RunningRoles);
  if (!options.socket.empty()) {
    ASSIGN_OR_RETURN(running->connection_,
                     DriverConnection::New(options.socket, options.connection));
  }
  for (const Role* role : options.roles) {
    running->controllers_.emplace_back(
        role, role->make(options.context(*role), running->connection_.get(), options.settings));
  }
  return running;
}

RunningRoles::~RunningRoles() { Stop(); }

void RunningRoles::Start() {
  for (const auto& [role, controller] : controllers_) Start(*role);
}

void RunningRoles::Start(const Role& role) {
  for (const auto& [of, controller] : controllers_) {
    if (of == &role) controller->Start();
  }
  if (connection_ != nullptr && !std::exchange(connecting_, true)) connection_->Start();
}

void RunningRoles::Stop() {
  for (const auto& [role, controller] : controllers_) controller->Stop();
  if (connection_ != nullptr) connection_->Stop();
}

void RunningRoles::CancelCalls() {
  if (connection_ != nullptr) connection_->CancelCalls();
}

std::shared_ptr<const controllers::DriverInfo> RunningRoles::driver() const {
  return connection_ == nullptr ? nullptr : connection_->info();
}

}  // namespace berth::roles
