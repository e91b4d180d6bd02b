// Writes to a claim's status what a call of the driver has brought.
#pragma once

#include <functional>

#include "api/kinds/kinds.h"
#include "controllers/writes.h"

namespace berth::controllers::resizer {

// The change of status that follows for the claim as it is.
using MakeStatus = std::function<Json(const api::PersistentVolumeClaim&)>;

// As PatchAt of the status. After a conflict the claim is read from the API, and the change made
// anew, because otherwise the driver would be called once more, only to learn the same. If another
// claim has the name now, the answer is NOT_FOUND.
StatusOr<api::PersistentVolumeClaim> PatchStatusAfterCall(
    kube::Client& client, kube::Informer<api::PersistentVolumeClaim>& claims,
    const api::PersistentVolumeClaim& claim, const MakeStatus& make);

}  // namespace berth::controllers::resizer
