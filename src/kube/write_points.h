// The fault points of writes to the API: "kube.VERB.RESOURCE.before" and ".after" for each kind and
// verb, as in "kube.patch.pods.status.before".
#pragma once

#include <string_view>

#include "api/kind_info.h"
#include "base/fault.h"

namespace berth::kube {

// `verb` is create, update, patch or delete. Kinds that Berth does not know itself, and
// subresources other than status, share the points of "other".
base::CallPoints WritePointsOf(std::string_view verb, const api::KindInfo& kind,
                               std::string_view subresource = "");

}  // namespace berth::kube
