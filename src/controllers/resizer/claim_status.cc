#include "controllers/resizer/claim_status.h"

namespace berth::controllers::resizer {

using api::PersistentVolumeClaim;
using base::Error;

namespace {
// A claim changes a few times in a minute, so a second conflict in a row is rare.
constexpr int kMaxTries = 4;
}  // namespace

StatusOr<PersistentVolumeClaim> PatchStatusAfterCall(kube::Client& client,
                                                     kube::Informer<PersistentVolumeClaim>& claims,
                                                     const PersistentVolumeClaim& claim,
                                                     const MakeStatus& make) {
  PersistentVolumeClaim current = claim;
  for (int tries = 1;; ++tries) {
    StatusOr<PersistentVolumeClaim> written =
        PatchAt(client, claims, current, {{"status", make(current)}}, "status");
    if (written.status().code() != StatusCode::kAborted || tries == kMaxTries) return written;
    ASSIGN_OR_RETURN(current, kube::Get<PersistentVolumeClaim>(client, claim.ns(), claim.name()));
    if (current.uid() != claim.uid()) {
      return Error(StatusCode::kNotFound, "claim '{}' is another one now", claim.key());
    }
  }
}

}  // namespace berth::controllers::resizer
