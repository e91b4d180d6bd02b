// Rules for long calls of a storage cluster's back end, which the block operator says are under
// way.
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// The block operator records how far the call is each half minute.
constexpr std::chrono::seconds kStillTrue{90};

// Returns `cause`, which has its id, link and step, with the rest of it, if the operator has lately
// recorded `reason` for the object of that kind.
std::optional<Cause> ExplainProgress(const State& state, std::string_view kind,
                                     std::string_view reason, Cause cause) {
  const api::Event* event = FindEvent(state, kind, reason);
  if (event == nullptr || !IsRecent(state, *event, kStillTrue)) return std::nullopt;
  cause.waiting = true;
  cause.summary = event->String({"message"});
  cause.proof = {fmt::format("the block operator reported this {} ago (event {})",
                             api::AgeSince(event->String({"lastTimestamp"}), state.now), reason)};
  cause.owner = Owner::kController;
  return cause;
}

}  // namespace

// An image in Ceph, or a LUN, which is overwritten.
std::optional<Cause> ImageBeingDeleted(const State& state) {
  const bool goes = state.object.deleting();
  if (state.object.kind() != "PersistentVolume" || (!goes && state.volume->phase() != "Released")) {
    return std::nullopt;
  }
  return ExplainProgress(state, "PersistentVolume", "VolumeDeleting",
                         {.id = "image-being-deleted",
                          .link = Link::kDeletion,
                          .step = "wait: the storage gives the space back piece by piece"});
}

// An image in a folder whose file system cannot share blocks.
std::optional<Cause> ImageBeingCopied(const State& state) {
  if (!state.claim.has_value() || state.claim->deleting() || state.claim->phase() == "Bound") {
    return std::nullopt;
  }
  return ExplainProgress(
      state, "PersistentVolumeClaim", "ImageCopying",
      {.id = "image-being-copied",
       .link = Link::kVolume,
       .step = "wait: the file system of the images cannot share blocks, so all data is copied"});
}

}  // namespace berth::cli::explain
