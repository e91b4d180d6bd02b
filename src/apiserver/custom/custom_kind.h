// The kinds that a CustomResourceDefinition makes: one for each of its served versions.
#pragma once

#include <string>
#include <vector>

#include "apiserver/kinds/kind_registry.h"

namespace berth::apiserver {

// `definition` as it is stored; its names are those of status.acceptedNames. The kinds share what
// they were made from and need nothing else to live on.
//
// A kind whose definition is being deleted takes no new objects. Every create asks `registry`
// (borrowed) once more, within its mutation: what was routed before the deletion began must not
// leave an object behind that nobody sees.
std::vector<KindPtr> MakeCustomKinds(const Json& definition, const KindRegistry& registry);

// The prefix of its objects in the store, whatever is served.
std::string InstancePrefix(const Json& definition);

}  // namespace berth::apiserver
