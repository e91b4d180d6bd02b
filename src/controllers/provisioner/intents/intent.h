// An intent says that CreateVolume was called, or is about to be, for a claim: until it is settled,
// a volume may exist in the driver that no object names. It holds all that is needed to make the
// same call again, and to delete what the call may have made, also when claim and class are gone.
// Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "controllers/provisioner/plan.h"

namespace berth::controllers::provisioner {

struct Intent {
  std::shared_ptr<const api::PersistentVolumeClaim> claim;
  std::shared_ptr<const api::StorageClass> storage_class;
  std::shared_ptr<const Plan> plan;  // of the last call
  // Before that call another one was made whose request is not known.
  bool inherited = false;
  // The plan for a node that was given up with an unknown outcome; null: there is none.
  std::shared_ptr<const Plan> given_up;
  base::WallTime since;  // of the first call with this outcome
};

// The form in which an intent is recorded. It has only the parts of claim and class that a
// PersistentVolume is made from.
base::Json EncodeIntent(const Intent& intent);
// INVALID_ARGUMENT if `recorded` is not such a form.
base::StatusOr<Intent> DecodeIntent(const base::Json& recorded);

}  // namespace berth::controllers::provisioner
