// Rules for long calls of a storage cluster's back end, which the block operator says are under
// way.
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// The block operator records how far the call is each half minute.
constexpr std::chrono::seconds kStillTrue{90};

// Returns the cause if the operator has lately recorded `reason` for the object of that kind. The
// caller sets id, link and step.
std::optional<Cause> ExplainProgress(const State& state, std::string_view kind,
                                     std::string_view reason) {
  const api::Event* event = FindEvent(state, kind, reason);
  if (event == nullptr || !IsRecent(state, *event, kStillTrue)) return std::nullopt;
  return Cause{
      .waiting = true,
      .summary = event->String({"message"}),
      .proof = {fmt::format("the block operator reported this {} ago (event {})",
                            api::AgeSince(event->String({"lastTimestamp"}), state.now), reason)},
      .owner = Owner::kController};
}

}  // namespace

// An image in Ceph, or a LUN, which is overwritten.
std::optional<Cause> ImageBeingDeleted(const State& state) {
  const bool goes = state.object.deleting();
  if (state.object.kind() != "PersistentVolume" || (!goes && state.volume->phase() != "Released")) {
    return std::nullopt;
  }
  std::optional<Cause> cause = ExplainProgress(state, "PersistentVolume", "VolumeDeleting");
  if (!cause.has_value()) return std::nullopt;
  cause->id = "image-being-deleted";
  cause->link = Link::kDeletion;
  cause->step = "wait: the storage gives the space back piece by piece";
  return cause;
}

// An image in a folder whose file system cannot share blocks.
std::optional<Cause> ImageBeingCopied(const State& state) {
  if (!state.claim.has_value() || state.claim->deleting() || state.claim->phase() == "Bound") {
    return std::nullopt;
  }
  std::optional<Cause> cause = ExplainProgress(state, "PersistentVolumeClaim", "ImageCopying");
  if (!cause.has_value()) return std::nullopt;
  cause->id = "image-being-copied";
  cause->link = Link::kVolume;
  cause->step = "wait: the file system of the images cannot share blocks, so all data is copied";
  return cause;
}

}  // namespace berth::cli::explain
