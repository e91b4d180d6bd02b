// Turns an unsuccessful HTTP answer into a base::Status, by the table in client.h.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace berth::kube {

// `body` is usually a Kubernetes Status, but a proxy may send anything. `what` names the request
// for a body without a message: "GET /api/v1/pods".
base::Status StatusFromHttp(long code, std::string_view body, std::string_view what);

// From a Status object, as the ERROR event of a watch carries it.
base::Status StatusFromObject(const base::Json& status);

}  // namespace berth::kube
