// The growth of a unit's volume (volume_units.h), before its first use or while it is used.
#include "base/flight.h"
#include "node/volumes/host_mount_pod.h"
#include "node/volumes/volume_units.h"

namespace berth::node {

using base::OkStatus;
using base::Status;
using base::StatusCode;

Status VolumeUnits::ExpandUnit(const std::string& key) {
  for (const Job& job : FindJobs(key, [](const Unit& unit, const Use& use) {
         return use.state.IsReady() && use.stored.has_value() && use.pod != nullptr &&
                !unit.device_name.empty() && (!IsDeferred(*use.stored) || !use.sandbox_id.empty());
       })) {
    const std::optional<int64_t> bytes = FindPendingExpansion(job.volume.spec);
    if (!bytes.has_value()) continue;
    const std::string claim_version = job.volume.spec.claim->resource_version();
    bool finished = false;
    // Until the claim's new status arrives through the informer, the claim here is an old one, for
    // which the growth is finished already.
    UpdateUse(job, [&](Unit& unit, Use&) { finished = unit.expanded_claim == claim_version; });
    if (finished) return OkStatus();
    RETURN_IF_ERROR_WITH(ExpandVolume(job, *bytes), "grow it");
    bool done = false;
    UpdateUse(job, [&](Unit& unit, Use&) { done = unit.expanded_to == *bytes; });
    if (!done) return OkStatus();
    RETURN_IF_ERROR(deps_.expansion.FinishExpansion(EventTarget(*job.pod), job.volume.spec));
    UpdateUse(job, [&](Unit& unit, Use&) { unit.expanded_claim = claim_version; });
    return OkStatus();
  }
  return OkStatus();
}

Status VolumeUnits::ExpandVolume(const Job& job, int64_t bytes) {
  bool settled = false;
  UpdateUse(job, [&](Unit& unit, Use&) {
    settled = unit.expand_refused == bytes || unit.expanded_to == bytes;
  });
  if (settled) return OkStatus();
  base::FlightSpan span(base::FlightKind::kStep, "grow", job.pod->key());
  const Status expanded = job.volume.plugin->Expand(job.stored->record, job.volume.spec, bytes);
  span.End(expanded);
  if (expanded.ok() || expanded.code() == StatusCode::kUnimplemented) {
    UpdateUse(job, [&](Unit& unit, Use&) { unit.expanded_to = bytes; });
    return OkStatus();
  }
  RETURN_IF_ERROR(deps_.expansion.ReportFailure(EventTarget(*job.pod), job.volume.spec, expanded));
  // The handler does not grow file systems (story 6), so the volume is not tried again in this
  // sandbox.
  const bool not_in_sandbox =
      IsDeferred(*job.stored) && expanded.code() == StatusCode::kFailedPrecondition;
  if (!VolumeExpansion::IsInfeasible(expanded) && !not_in_sandbox) return expanded;
  UpdateUse(job, [&](Unit& unit, Use& use) {
    // The refusal does not count if the pod has another sandbox now.
    if (not_in_sandbox && use.sandbox_id.text() != job.stored->record.sandbox->sandbox_id) return;
    unit.expand_refused = bytes;
  });
  return OkStatus();
}

bool VolumeUnits::IsInUse(const std::string& key) const {
  return !FindJobs(key, [](const Unit&, const Use& use) { return use.state.IsSetUp(); }).empty();
}

}  // namespace berth::node
