// Turns an unsuccessful HTTP answer into a base::Status, by the table in client.h.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace berth::kube {

// `body` is usually a Kubernetes Status, but a proxy may send anything. If the body has no message,
// the error's message names the `request`, such as "GET /api/v1/pods".
base::Status StatusFromHttp(long code, std::string_view body, std::string_view request);

// `status` is a Status object, such as that in the ERROR event of a watch.
base::Status StatusFromObject(const base::Json& status);

}  // namespace berth::kube
