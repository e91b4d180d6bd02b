// The kinds that a CustomResourceDefinition makes: one for each of its served versions.
#pragma once

#include <string>
#include <vector>

#include "apiserver/kinds/kind_registry.h"

namespace berth::apiserver {

// Makes the kinds of `definition`, which is the stored object; their names are those of
// status.acceptedNames. The kinds together own the data from which they were made, and borrow only
// `registry`.
//
// A kind whose definition is being deleted accepts no new objects. Every create asks `registry`
// again within its mutation, because a request that was routed before the deletion began must not
// create an object that no client could see.
std::vector<KindPtr> MakeCustomKinds(const Json& definition, const KindRegistry& registry);

// The prefix of the definition's objects in the store. It does not depend on which versions are
// served.
std::string InstancePrefix(const Json& definition);

}  // namespace berth::apiserver
