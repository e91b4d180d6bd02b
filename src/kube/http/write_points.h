// The fault points of writes to the API. Their names are "kube.VERB.RESOURCE.before" and ".after"
// for each kind and verb, such as "kube.patch.pods.status.before".
#pragma once

#include <string_view>

#include "api/kind_info.h"
#include "base/fault.h"

namespace berth::kube {

// Returns the points of a write. `verb` is create, update, patch or delete. Kinds that are neither
// built in nor kinds of snapshots, and subresources other than status, share the points of the
// resource "other".
base::CallPoints FindWritePoints(std::string_view verb, const api::KindInfo& kind,
                                 std::string_view subresource = "");

}  // namespace berth::kube
