// Rules from a VolumeSnapshot to a snapshot that is ready, and for its deletion.
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

constexpr std::string_view kDefaultClass = "snapshot.storage.kubernetes.io/is-default-class";

// Whether a snapshot is wanted and not ready yet. If the snapshot is being deleted, nobody waits
// for it any more.
bool WaitsForSnapshot(const State& state) {
  return state.snapshot.has_value() && !state.snapshot->ready() && !state.snapshot->deleting();
}

std::string FindError(const State& state) {
  if (state.content.has_value() && !state.content->error().empty()) return state.content->error();
  return state.snapshot->error();
}

}  // namespace

std::optional<Cause> SnapshotSourceUnbound(const State& state) {
  if (!WaitsForSnapshot(state) || state.content.has_value() || !state.claim.has_value())
    return std::nullopt;
  if (state.claim->phase() == "Bound") return std::nullopt;
  return Cause{
      .id = "source-not-bound",
      .link = Link::kSnapshot,
      .summary =
          fmt::format("claim '{}', the source of the snapshot, has no volume yet", state.claim_key),
      .proof = {fmt::format("the claim is {}", state.claim->phase())},
      .owner = Owner::kPerson,
      .step = "find out why the claim has no volume; as soon as it has one, the snapshot is taken",
      .command = fmt::format("berth explain pvc/{} -n {}", state.claim->name(), state.claim->ns())};
}

std::optional<Cause> SnapshotContentAbsent(const State& state) {
  if (!WaitsForSnapshot(state) || state.content.has_value()) return std::nullopt;
  const std::string wanted = state.snapshot->source_content();
  const bool was_taken = !state.snapshot->creation_time().empty();
  if (wanted.empty() && !was_taken) return std::nullopt;
  const std::string name = wanted.empty() ? state.snapshot->content_name() : wanted;
  return Cause{
      .id = "content-missing",
      .link = Link::kSnapshot,
      .summary = fmt::format("VolumeSnapshotContent '{}' does not exist", name),
      .proof = {fmt::format(
          "{} names it{}", state.subject,
          was_taken ? fmt::format(", and was taken at {}", state.snapshot->creation_time()) : "")},
      .owner = Owner::kPerson,
      .step = was_taken ? "restore the VolumeSnapshotContent from a backup, or delete the "
                          "VolumeSnapshot; a snapshot that is taken now has newer data"
                        : "create the VolumeSnapshotContent with the snapshot's handle and "
                          "this VolumeSnapshot's name",
      .command = "berth get volumesnapshotcontents"};
}

std::optional<Cause> NoSnapshotClass(const State& state) {
  if (!WaitsForSnapshot(state) || state.content.has_value() || state.snapshot_class.has_value()) {
    return std::nullopt;
  }
  // A snapshot that exists already in the storage needs no class, unless it names one.
  const std::string wanted = state.snapshot->class_name();
  if (wanted.empty() && (state.snapshot->source_claim().empty() || !state.bound())) {
    return std::nullopt;
  }
  std::vector<std::string> names, defaults;
  for (const api::VolumeSnapshotClass& known : state.snapshot_classes) {
    names.push_back(known.name());
    if (known.driver() == state.driver && known.annotation(kDefaultClass) == "true") {
      defaults.push_back(known.name());
    }
  }
  if (wanted.empty() && defaults.size() == 1) return std::nullopt;  // it is about to be taken
  Cause cause{
      .id = "no-snapshot-class",
      .link = Link::kSnapshot,
      .proof = {fmt::format("VolumeSnapshotClasses that exist: {}",
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))},
      .owner = Owner::kPerson,
      .command = "berth get volumesnapshotclasses"};
  if (!wanted.empty()) {
    cause.summary = fmt::format("VolumeSnapshotClass '{}' does not exist", wanted);
    cause.step = "create the class; the snapshot is then taken at once";
    return cause;
  }
  cause.proof.push_back(
      fmt::format("marked as default for driver '{}': {}", state.driver,
                  defaults.empty() ? "none" : fmt::format("{}", fmt::join(defaults, ", "))));
  cause.summary =
      fmt::format("the VolumeSnapshot names no class, and driver '{}' has {}", state.driver,
                  defaults.empty() ? "no default one" : "more than one default one");
  cause.step = fmt::format(
      "mark exactly one class of the driver as default ({}=true), or create the "
      "VolumeSnapshot again with a class",
      kDefaultClass);
  return cause;
}

std::optional<Cause> SnapshotterAbsent(const State& state) {
  if (!WaitsForSnapshot(state) || !state.content.has_value()) return std::nullopt;
  if (FindBadCall(state, SnapshotKey(state)) != nullptr) return std::nullopt;
  const std::string driver = state.content->driver();
  return ExplainAbsentDriver(
      state, {.driver = driver,
              .link = Link::kSnapshot,
              .named_by = fmt::format("content '{}'", state.content->name()),
              .summary = fmt::format("the driver '{}' is not available to take a snapshot", driver),
              .then = "the snapshot is then taken at once"});
}

std::optional<Cause> SnapshotFails(const State& state) {
  if (!WaitsForSnapshot(state)) return std::nullopt;
  if (state.content.has_value()) {
    if (const base::FlightRecord* call = FindBadCall(state, SnapshotKey(state))) {
      return ExplainCall(state, Link::kSnapshot, *call);
    }
    if (!state.content->snapshot_handle().empty() && FindError(state).empty()) {
      return Cause{
          .id = "snapshot-uploading",
          .link = Link::kSnapshot,
          .waiting = true,
          .summary = "the snapshot is taken, but the driver has not made it ready to use yet",
          .proof = {fmt::format("snapshot '{}' of driver '{}' is not ready to use",
                                state.content->snapshot_handle(), state.content->driver())},
          .owner = Owner::kDriver,
          .step = "wait; Berth asks the driver until the snapshot is ready to use"};
    }
  }
  const std::string error = FindError(state);
  if (error.empty()) return std::nullopt;
  // Another rule reports the reason for this error.
  if (NoSnapshotClass(state).has_value() || SnapshotSourceUnbound(state).has_value() ||
      SnapshotContentAbsent(state).has_value()) {
    return std::nullopt;
  }
  const bool of_driver = state.content.has_value() && !state.content->error().empty();
  const bool secret = error.find("read secret") != std::string::npos;
  return Cause{.id = secret      ? "secret-missing"
                     : of_driver ? "driver-error"
                                 : "snapshot-fails",
               .link = Link::kSnapshot,
               .summary = error,
               .proof = {fmt::format("status.error of the {}",
                                     of_driver ? "VolumeSnapshotContent" : "VolumeSnapshot")},
               .owner = of_driver && !secret ? Owner::kDriver : Owner::kPerson,
               .step = "correct the problem that the message names; Berth tries again by itself"};
}

std::optional<Cause> SnapshotBeingRestored(const State& state) {
  if (!state.snapshot.has_value() || !state.snapshot->deleting() || state.restoring.empty()) {
    return std::nullopt;
  }
  return Cause{
      .id = "being-restored",
      .link = Link::kDeletion,
      .summary = "the snapshot is deleted but a volume is still to be restored from it",
      .proof = {fmt::format("claims that are Pending and name it: {}",
                            fmt::join(state.restoring, ", "))},
      .owner = Owner::kPerson,
      .step =
          "wait until those claims are bound (a class may wait for a pod that uses them), or "
          "delete them; the snapshot is then deleted",
      .command =
          fmt::format("berth explain pvc/{} -n {}", state.restoring.front(), state.snapshot->ns())};
}

std::optional<Cause> SnapshotDeletionFails(const State& state) {
  if (!state.content.has_value() || !state.content->deleting()) return std::nullopt;
  if (const base::FlightRecord* call = FindBadCall(state, SnapshotKey(state))) {
    return ExplainCall(state, Link::kDeletion, *call);
  }
  if (state.content->error().empty()) return std::nullopt;
  // The text is that of the snapshotter (snapshotter/delete.cc).
  if (state.content->error().find("is not deleted with this one") != std::string::npos) {
    return Cause{.id = "snapshot-shared",
                 .link = Link::kDeletion,
                 .summary = state.content->error(),
                 .proof = {"status.error of the VolumeSnapshotContent"},
                 .owner = Owner::kPerson,
                 .step =
                     "delete the other content, too, if nobody needs the data; or set this one's "
                     "deletionPolicy to Retain, so that it is deleted without the data",
                 .command = "berth get volumesnapshotcontents"};
  }
  return Cause{
      .id = "driver-error",
      .link = Link::kDeletion,
      .summary = state.content->error(),
      .proof = {"status.error of the VolumeSnapshotContent"},
      .owner = Owner::kDriver,
      .step =
          "correct the problem that the driver names; Berth tries the deletion again by itself"};
}

}  // namespace berth::cli::explain
