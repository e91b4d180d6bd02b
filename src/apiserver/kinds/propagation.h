// What a delete says of the objects that the deleted one owns (their ownerReferences name it).
//
//   Background   it goes at once, they follow                     no finalizer
//   Foreground   they go first, it follows                        foregroundDeletion
//   Orphan       they stay, without the reference, and it goes    orphan
//
// The finalizers ask the garbage collector (controllers/ownergc) for the rest. Pure.
#pragma once

#include <optional>
#include <string>

#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

struct Propagation {
  std::string policy;                     // "" if not given
  std::optional<bool> orphan_dependents;  // the older way of saying it
};

// From DeleteOptions; 422 for an unknown policy, and for both ways at once.
base::StatusOr<Propagation> ParsePropagation(const Json& options);

// metadata.finalizers of `object` once it is deleted so. Without a wish, an object that has one of
// the two finalizers keeps it; a delete that asks for something else replaces it, also while the
// object is being deleted.
Json FinalizersAfterDelete(const KindRules& rules, const Json& object,
                           const Propagation& propagation);

}  // namespace berth::apiserver
