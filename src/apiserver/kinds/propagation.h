// What a delete does with the dependents, whose ownerReferences name the deleted object.
//
//   Background   it goes at once, they follow                     no finalizer
//   Foreground   they go first, it follows                        foregroundDeletion
//   Orphan       they stay, without the reference, and it goes    orphan
//
// The garbage collector (controllers/ownergc) does the rest, because the finalizers ask it to.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

struct Propagation {
  std::string policy;                     // "" if not given
  std::optional<bool> orphan_dependents;  // the deprecated option for the same
};

// From DeleteOptions; 422 for an unknown policy, and for both ways at once.
base::StatusOr<Propagation> ParsePropagation(const Json& options);

// metadata.finalizers of `object` after a delete with this propagation. If the delete names no
// policy, an object that has one of the two finalizers keeps it. A delete that names another policy
// replaces the finalizer, also while the object is being deleted.
Json FinalizersAfterDelete(const KindRules& rules, const Json& object,
                           const Propagation& propagation);

}  // namespace berth::apiserver
