// The propagation policy of a delete: what happens to the dependents, which are the objects whose
// ownerReferences name the deleted object. Each policy has a finalizer.
//
//   Background   the object is removed first, then the dependents    no finalizer
//   Foreground   the dependents are removed first, then the object   foregroundDeletion
//   Orphan       the dependents stay, but lose their reference       orphan
//
// The garbage collector (controllers/ownergc) sees the finalizers and does the rest. Pure.
#pragma once

#include <optional>
#include <string>

#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

struct Propagation {
  std::string policy;                     // "" if not given
  std::optional<bool> orphan_dependents;  // the deprecated option; true is Orphan
};

// Reads DeleteOptions. 422 for an unknown policy, and if both options are given; 400 if
// orphanDependents is not a boolean.
base::StatusOr<Propagation> ParsePropagation(const Json& options);

// metadata.finalizers of `object` after a delete with this propagation. If the delete names no
// policy, an object that has one of the two finalizers keeps it. A delete that names another policy
// replaces the finalizer, also while the object is being deleted.
Json FinalizersAfterDelete(const KindRules& rules, const Json& object,
                           const Propagation& propagation);

}  // namespace berth::apiserver
