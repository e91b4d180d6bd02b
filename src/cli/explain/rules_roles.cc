// Rules for a driver's controllers, except their calls to the driver: whether a role has a leader,
// and which of its requests the API refuses. Each role may run in another process, and several
// processes may be candidates for its lease.
#include <algorithm>

#include "api/kinds/csi_names.h"
#include "api/kinds/lease_names.h"
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::FlightRecord;

constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";

// The role that has to act next.
struct Turn {
  std::string_view role;
  std::string driver;  // empty: the role is of the cluster
  std::string lease;
  Link link;
  std::string key;  // of the role's flight records
};

Turn MakeSnapshotterTurn(const State& state, Link link) {
  const std::string driver = state.content->driver();
  return {"snapshotter", driver, api::SnapshotterLease(driver), link, SnapshotKey(state)};
}

Turn MakeSnapshotControllerTurn(const State& state, Link link) {
  return {"snapshot-controller", "", api::SnapshotControllerLease(""), link,
          "snapshots " + state.snapshot->key()};
}

std::optional<Turn> FindSnapshotTurn(const State& state) {
  if (state.content && state.content->deleting())
    return MakeSnapshotterTurn(state, Link::kDeletion);
  if (!state.snapshot) return std::nullopt;
  if (state.snapshot->deleting()) return MakeSnapshotControllerTurn(state, Link::kDeletion);
  if (state.snapshot->ready()) return std::nullopt;
  if (!state.content) return MakeSnapshotControllerTurn(state, Link::kSnapshot);
  return state.content->ready() ? MakeSnapshotControllerTurn(state, Link::kSnapshot)
                                : MakeSnapshotterTurn(state, Link::kSnapshot);
}

Turn MakeProvisionerTurn(const std::string& driver, Link link, std::string key) {
  return {"provisioner", driver, api::ProvisionerLease(driver), link, std::move(key)};
}

Turn MakeResizerTurn(const State& state, std::string key) {
  return {"resizer", state.driver, api::ResizerLease(state.driver), Link::kVolume, std::move(key)};
}

// Returns the provisioner's turn if the claim has no volume and nothing else has to happen first.
std::optional<Turn> FindPendingClaimTurn(const State& state) {
  if (!state.claim || state.claim->deleting() || state.claim->phase() == "Bound" ||
      !state.claim->volume_name().empty() || !state.storage_class ||
      state.storage_class->provisioner() == api::kNoProvisioner) {
    return std::nullopt;
  }
  if (state.storage_class->wait_for_first_consumer() &&
      !state.claim->has_annotation(kSelectedNode)) {
    return std::nullopt;
  }
  return MakeProvisionerTurn(state.storage_class->provisioner(), Link::kVolume,
                             ProvisionKey(state));
}

std::optional<Turn> FindBoundClaimTurn(const State& state) {
  if (state.object.kind() != "PersistentVolumeClaim" || !state.bound() || state.driver.empty()) {
    return std::nullopt;
  }
  // If the node has to finish the expansion, it is not the resizer's turn.
  const bool of_node = state.claim->resize_status().starts_with("Node");
  if (AsksForMore(*state.claim) && !of_node) return MakeResizerTurn(state, ResizeKey(state));
  const std::string wanted = state.claim->volume_attributes_class_name();
  const std::string has = state.claim->String({"status", "currentVolumeAttributesClassName"});
  if (!wanted.empty() && wanted != has) return MakeResizerTurn(state, ModifyKey(state));
  return std::nullopt;
}

std::optional<Turn> FindAttachmentTurn(const State& state) {
  if (!state.attachment) return std::nullopt;
  const bool goes = state.object.kind() == "VolumeAttachment" && state.object.deleting();
  if (!goes && (state.attachment->attached() || state.attachment->deleting())) return std::nullopt;
  const std::string driver = state.attachment->attacher();
  return Turn{"attacher", driver, api::AttacherLease(driver),
              goes ? Link::kDeletion : Link::kAttachment, AttachKey(state.attachment->name())};
}

std::optional<Turn> FindVolumeTurn(const State& state) {
  if (state.object.kind() != "PersistentVolume" || state.driver.empty()) return std::nullopt;
  if (state.volume->phase() != "Released" || state.volume->reclaim_policy() != "Delete") {
    return std::nullopt;
  }
  return MakeProvisionerTurn(state.driver, Link::kDeletion, DeleteKey(state));
}

std::optional<Turn> FindTurn(const State& state) {
  for (const auto find : {&FindSnapshotTurn, &FindVolumeTurn, &FindPendingClaimTurn,
                          &FindBoundClaimTurn, &FindAttachmentTurn}) {
    if (auto turn = find(state)) return turn;
  }
  return std::nullopt;
}

// Whether the socket is the driver's. Drivers have their sockets in a folder of their name.
bool IsSocketOf(const std::string& socket, const std::string& driver) {
  return socket.find(fmt::format("/{}/", driver)) != std::string::npos;
}

std::string NameOf(const Turn& turn) {
  return turn.driver.empty() ? fmt::format("the {}", turn.role)
                             : fmt::format("the {} of driver '{}'", turn.role, turn.driver);
}

std::string HolderOf(const api::Lease& lease) { return lease.String({"spec", "holderIdentity"}); }

// How long ago the lease expired; negative: it has not expired yet.
std::chrono::seconds ComputeOverdue(const State& state, const api::Lease& lease) {
  const auto renewed = api::ParseTime(lease.renew_time());
  const std::chrono::seconds lasts{lease.Int({"spec", "leaseDurationSeconds"})};
  if (!renewed.ok()) return std::chrono::hours(24);
  return std::chrono::duration_cast<std::chrono::seconds>(state.now - *renewed) - lasts;
}

bool IsHeld(const State& state, const api::Lease& lease) {
  return !HolderOf(lease).empty() && ComputeOverdue(state, lease) <= std::chrono::seconds(0);
}

std::vector<const api::Lease*> ListLeases(const State& state, const Turn& turn) {
  std::vector<const api::Lease*> out;
  for (const api::Lease& lease : state.leases) {
    if (lease.name() == turn.lease) out.push_back(&lease);
  }
  return out;
}

// The process that runs the role for the driver and that a signal has stopped; null: there is none
// on this machine.
const platform::ProcessInfo* FindStoppedRole(const State& state, const Turn& turn) {
  for (const StoppedRoles& stopped : state.stopped_roles) {
    const bool serves =
        turn.driver.empty() || std::ranges::any_of(stopped.sockets, [&](const auto& socket) {
          const bool of_node =
              std::ranges::find(state.driver_sockets, socket) != state.driver_sockets.end();
          return of_node || (!stopped.of_node && IsSocketOf(socket, turn.driver));
        });
    if (serves && std::ranges::find(stopped.roles, turn.role) != stopped.roles.end()) {
      return &stopped.process;
    }
  }
  return nullptr;
}

std::string DescribeLease(const State& state, const api::Lease& lease) {
  if (HolderOf(lease).empty()) return fmt::format("nobody holds lease '{}'", lease.key());
  return fmt::format("lease '{}' is held by '{}', renewed {} ago", lease.key(), HolderOf(lease),
                     api::AgeSince(lease.renew_time(), state.now));
}

}  // namespace

// A signal stopped the driver's process, and no call has failed yet that would say so.
std::optional<Cause> DriverStopped(const State& state) {
  const std::optional<Turn> turn = FindTurn(state);
  const bool waits = state.wants_mount() && !IsReady(state);
  if (state.driver.empty() || (!turn.has_value() && !waits && !state.object.deleting())) {
    return std::nullopt;
  }
  const std::string key = turn.has_value() ? turn->key : NodeKey(state);
  if (FindBadCall(state, key) != nullptr) return std::nullopt;
  for (const auto& [socket, server] : state.servers) {
    const bool serves = IsSocketOf(socket, state.driver) ||
                        std::ranges::any_of(FindRecords(state, key), [&](const auto* record) {
                          return record->kind == FlightKind::kCall && record->target == socket;
                        });
    const platform::ProcessInfo* stopped = FindStoppedServer(state, socket);
    if (!serves || stopped == nullptr) continue;
    Cause cause{.id = "driver-hung",
                .link = turn.has_value() ? turn->link : Link::kStage,
                .summary = fmt::format("the driver '{}' answers nothing", state.driver)};
    AddStoppedProcess(*stopped, cause);
    return cause;
  }
  return std::nullopt;
}

// Without a lease nobody takes the place of a process that a signal has stopped.
std::optional<Cause> RoleStopped(const State& state) {
  const std::optional<Turn> turn = FindTurn(state);
  if (!turn.has_value() || !ListLeases(state, *turn).empty()) return std::nullopt;
  const platform::ProcessInfo* stopped = FindStoppedRole(state, *turn);
  if (stopped == nullptr) return std::nullopt;
  return Cause{.id = "role-stopped",
               .link = turn->link,
               .summary = fmt::format("{} has to act next, and is stopped", NameOf(*turn)),
               .proof = {DescribeProcess(*stopped)},
               .owner = Owner::kController,
               .step = "a signal stopped its process: let it continue (SIGCONT)",
               .command = fmt::format("kill -CONT {}", stopped->pid)};
}

std::optional<Cause> NoLeader(const State& state) {
  const std::optional<Turn> turn = FindTurn(state);
  if (!turn.has_value()) return std::nullopt;
  const auto leases = ListLeases(state, *turn);
  if (leases.empty() || std::any_of(leases.begin(), leases.end(), [&](const api::Lease* lease) {
        return IsHeld(state, *lease);
      })) {
    return std::nullopt;
  }
  Cause cause{
      .id = "no-leader",
      .link = turn->link,
      .waiting = true,
      .summary = fmt::format("{} has no leader", NameOf(*turn)),
      .owner = Owner::kController,
      .step =
          "start the role, or find out why its candidates cannot renew their lease. One of them "
          "becomes the leader within the lease duration, and then continues this work",
      .command = fmt::format("berth get lease {} -n {} -o yaml", leases.front()->name(),
                             leases.front()->ns())};
  for (const api::Lease* lease : leases) {
    cause.proof.push_back(DescribeLease(state, *lease));
    // Another candidate may be about to take an expired lease, so this is only a wait until another
    // lease duration has passed.
    const std::chrono::seconds lasts{lease->Int({"spec", "leaseDurationSeconds"})};
    cause.waiting =
        cause.waiting && !HolderOf(*lease).empty() && ComputeOverdue(state, *lease) < lasts;
  }
  if (const platform::ProcessInfo* stopped = FindStoppedRole(state, *turn)) {
    cause.proof.push_back(DescribeProcess(*stopped));
  }
  return cause;
}

// Work of the role fails without a failed call to the driver. Other rules report failed calls.
std::optional<Cause> RoleFails(const State& state) {
  const std::optional<Turn> turn = FindTurn(state);
  if (!turn.has_value() || FindBadCall(state, turn->key) != nullptr) return std::nullopt;
  const FlightRecord* retry = nullptr;
  for (const FlightRecord* record : FindRecords(state, turn->key)) {
    if (record->kind == FlightKind::kRetry) retry = record;
  }
  if (retry == nullptr) return std::nullopt;
  const bool refused =
      IsApiRefusal(retry->message) || retry->code == base::StatusCode::kPermissionDenied;
  // These codes mean that no try can succeed until a person changes what is asked for.
  const bool asked = retry->code == base::StatusCode::kInvalidArgument ||
                     retry->code == base::StatusCode::kNotFound ||
                     retry->code == base::StatusCode::kFailedPrecondition ||
                     retry->code == base::StatusCode::kOutOfRange;
  return Cause{
      .id = refused ? "api-refuses"
            : asked ? "request-refused"
                    : "controller-error",
      .link = turn->link,
      .summary = fmt::format("{}{}: {}", refused ? "the API refuses a request of " : "",
                             NameOf(*turn), retry->message),
      .proof = {fmt::format("it tried {} times in {}; {}", retry->count,
                            DescribeAge(state, retry->first), DescribeRetry(state, turn->key))},
      .owner = refused || asked ? Owner::kPerson : Owner::kController,
      .step = refused ? AdviseOnApiRefusal(retry->message)
                      : "correct the problem that the message names; Berth tries again by itself"};
}

std::optional<Cause> WaitsForRole(const State& state) {
  const std::optional<Turn> turn = FindTurn(state);
  if (!turn.has_value()) return std::nullopt;
  for (const Rule rule : AllRules()) {
    if (rule == &WaitsForRole) continue;
    const std::optional<Cause> other = rule(state);
    if (other.has_value() && (other->link <= turn->link || other->link == Link::kDeletion)) {
      return std::nullopt;
    }
  }
  for (const FlightRecord* record : FindRecords(state, turn->key)) {
    if (record->running) return std::nullopt;
  }
  Cause cause{.id = "waits-for-role",
              .link = turn->link,
              .waiting = true,
              .summary = fmt::format("{} has to act next, and has not started", NameOf(*turn)),
              .owner = Owner::kController,
              .step = "wait a few seconds; if nothing happens, read the log of that process"};
  for (const api::Lease* lease : ListLeases(state, *turn)) {
    if (IsHeld(state, *lease)) cause.proof.push_back(DescribeLease(state, *lease));
  }
  if (cause.proof.empty()) {
    cause.proof = {
        fmt::format("no namespace has a lease '{}': the role runs without leader election, or "
                    "it does not run",
                    turn->lease)};
  }
  return cause;
}

}  // namespace berth::cli::explain
