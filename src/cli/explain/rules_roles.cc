// Rules for a driver's controllers, apart from their calls to the driver: whether a role has a
// leader, and what the API answers it. Each role may run in another process, and have candidates in
// several.
#include <algorithm>

#include "api/kinds/csi_names.h"
#include "api/kinds/lease_names.h"
#include "api/quantity.h"
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
  std::string key;  // under which it records
};

Turn OfSnapshotter(const State& state, Link link) {
  const std::string driver = state.content->driver();
  return {"snapshotter", driver, api::SnapshotterLease(driver), link, SnapshotKey(state)};
}

Turn OfSnapshotController(const State& state, Link link) {
  return {"snapshot-controller", "", api::SnapshotControllerLease(""), link,
          "snapshots " + state.snapshot->key()};
}

std::optional<Turn> OfSnapshot(const State& state) {
  if (state.content && state.content->deleting()) return OfSnapshotter(state, Link::kDeletion);
  if (!state.snapshot) return std::nullopt;
  if (state.snapshot->deleting()) return OfSnapshotController(state, Link::kDeletion);
  if (state.snapshot->ready()) return std::nullopt;
  if (!state.content) return OfSnapshotController(state, Link::kSnapshot);
  return state.content->ready() ? OfSnapshotController(state, Link::kSnapshot)
                                : OfSnapshotter(state, Link::kSnapshot);
}

Turn OfProvisioner(const std::string& driver, Link link, std::string key) {
  return {"provisioner", driver, api::ProvisionerLease(driver), link, std::move(key)};
}

Turn OfResizer(const State& state, std::string key) {
  return {"resizer", state.driver, api::ResizerLease(state.driver), Link::kVolume, std::move(key)};
}

// A claim without a volume, for which nothing else has to happen first.
std::optional<Turn> OfPendingClaim(const State& state) {
  if (!state.claim || state.claim->deleting() || state.claim->phase() == "Bound" ||
      !state.claim->volume_name().empty() || !state.storage_class ||
      state.storage_class->provisioner() == api::kNoProvisioner) {
    return std::nullopt;
  }
  if (state.storage_class->wait_for_first_consumer() &&
      !state.claim->has_annotation(kSelectedNode)) {
    return std::nullopt;
  }
  return OfProvisioner(state.storage_class->provisioner(), Link::kVolume, ProvisionKey(state));
}

bool AsksForMore(const api::PersistentVolumeClaim& claim) {
  const auto wanted = api::Quantity::Parse(claim.requested_storage());
  const auto has = api::Quantity::Parse(claim.capacity());
  return wanted.ok() && has.ok() && *has < *wanted;
}

std::optional<Turn> OfBoundClaim(const State& state) {
  if (state.object.kind() != "PersistentVolumeClaim" || !state.bound() || state.driver.empty()) {
    return std::nullopt;
  }
  // If the node has to finish the expansion, it is not the resizer's turn.
  const bool of_node = state.claim->resize_status().starts_with("Node");
  if (AsksForMore(*state.claim) && !of_node) return OfResizer(state, ResizeKey(state));
  const std::string wanted = state.claim->volume_attributes_class_name();
  const std::string has = state.claim->String({"status", "currentVolumeAttributesClassName"});
  if (!wanted.empty() && wanted != has) return OfResizer(state, ModifyKey(state));
  return std::nullopt;
}

std::optional<Turn> OfAttachment(const State& state) {
  if (!state.attachment) return std::nullopt;
  const bool goes = state.object.kind() == "VolumeAttachment" && state.object.deleting();
  if (!goes && (state.attachment->attached() || state.attachment->deleting())) return std::nullopt;
  const std::string driver = state.attachment->attacher();
  return Turn{"attacher", driver, api::AttacherLease(driver),
              goes ? Link::kDeletion : Link::kAttachment, AttachKey(state.attachment->name())};
}

std::optional<Turn> OfVolume(const State& state) {
  if (state.object.kind() != "PersistentVolume" || state.driver.empty()) return std::nullopt;
  if (state.volume->phase() != "Released" || state.volume->reclaim_policy() != "Delete") {
    return std::nullopt;
  }
  return OfProvisioner(state.driver, Link::kDeletion, DeleteKey(state));
}

std::optional<Turn> TurnOf(const State& state) {
  for (const auto of : {&OfSnapshot, &OfVolume, &OfPendingClaim, &OfBoundClaim, &OfAttachment}) {
    if (auto turn = of(state)) return turn;
  }
  return std::nullopt;
}

std::string NameOf(const Turn& turn) {
  return turn.driver.empty() ? fmt::format("the {}", turn.role)
                             : fmt::format("the {} of driver '{}'", turn.role, turn.driver);
}

std::string HolderOf(const api::Lease& lease) { return lease.String({"spec", "holderIdentity"}); }

// How long ago the lease expired; negative: it has not expired yet.
std::chrono::seconds Overdue(const State& state, const api::Lease& lease) {
  const auto renewed = api::ParseTime(lease.renew_time());
  const std::chrono::seconds lasts{lease.Int({"spec", "leaseDurationSeconds"})};
  if (!renewed.ok()) return std::chrono::hours(24);
  return std::chrono::duration_cast<std::chrono::seconds>(state.now - *renewed) - lasts;
}

bool Lives(const State& state, const api::Lease& lease) {
  return !HolderOf(lease).empty() && Overdue(state, lease) <= std::chrono::seconds(0);
}

std::vector<const api::Lease*> LeasesOf(const State& state, const Turn& turn) {
  std::vector<const api::Lease*> out;
  for (const api::Lease& lease : state.leases) {
    if (lease.name() == turn.lease) out.push_back(&lease);
  }
  return out;
}

std::string Describe(const State& state, const api::Lease& lease) {
  if (HolderOf(lease).empty()) return fmt::format("nobody holds lease '{}'", lease.key());
  return fmt::format("lease '{}' is held by '{}', renewed {} ago", lease.key(), HolderOf(lease),
                     api::AgeSince(lease.renew_time(), state.now));
}

}  // namespace

std::optional<Cause> NoLeader(const State& state) {
  const std::optional<Turn> turn = TurnOf(state);
  if (!turn.has_value()) return std::nullopt;
  const auto leases = LeasesOf(state, *turn);
  if (leases.empty() || std::any_of(leases.begin(), leases.end(), [&](const api::Lease* lease) {
        return Lives(state, *lease);
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
    cause.proof.push_back(Describe(state, *lease));
    // Another candidate may be about to take an expired lease, so this is only a wait until another
    // lease duration has passed.
    const std::chrono::seconds lasts{lease->Int({"spec", "leaseDurationSeconds"})};
    cause.waiting = cause.waiting && !HolderOf(*lease).empty() && Overdue(state, *lease) < lasts;
  }
  return cause;
}

// Work of the role that fails without a failed call to the driver. Other rules report failed calls.
std::optional<Cause> RoleFails(const State& state) {
  const std::optional<Turn> turn = TurnOf(state);
  if (!turn.has_value() || BadCall(state, turn->key) != nullptr) return std::nullopt;
  const FlightRecord* retry = nullptr;
  for (const FlightRecord* record : RecordsOf(state, turn->key)) {
    if (record->kind == FlightKind::kRetry) retry = record;
  }
  if (retry == nullptr) return std::nullopt;
  const bool refused =
      IsRefusalOfApi(retry->message) || retry->code == base::StatusCode::kPermissionDenied;
  return Cause{
      .id = refused ? "api-refuses" : "controller-error",
      .link = turn->link,
      .summary = fmt::format("{}{}: {}", refused ? "the API refuses a request of " : "",
                             NameOf(*turn), retry->message),
      .proof = {fmt::format("it tried {} times in {}; {}", retry->count, AgeOf(state, retry->first),
                            RetryOf(state, turn->key))},
      .owner = refused ? Owner::kPerson : Owner::kController,
      .step = refused ? AfterRefusalOfApi(retry->message)
                      : "correct the problem that the message names; Berth tries again by itself"};
}

std::optional<Cause> WaitsForRole(const State& state) {
  const std::optional<Turn> turn = TurnOf(state);
  if (!turn.has_value()) return std::nullopt;
  for (const Rule rule : AllRules()) {
    if (rule == &WaitsForRole) continue;
    const std::optional<Cause> other = rule(state);
    if (other.has_value() && (other->link <= turn->link || other->link == Link::kDeletion)) {
      return std::nullopt;
    }
  }
  for (const FlightRecord* record : RecordsOf(state, turn->key)) {
    if (record->running) return std::nullopt;
  }
  Cause cause{.id = "waits-for-role",
              .link = turn->link,
              .waiting = true,
              .summary = fmt::format("{} has to act next, and has not started", NameOf(*turn)),
              .owner = Owner::kController,
              .step = "wait a few seconds; if nothing happens, read the log of that process"};
  for (const api::Lease* lease : LeasesOf(state, *turn)) {
    if (Lives(state, *lease)) cause.proof.push_back(Describe(state, *lease));
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
