// The Kubernetes version that the server reports. It is the release whose API the kinds follow.
#pragma once

#include <string>

#include "base/json.h"

namespace berth::apiserver {

// "v1.32.0+berth"
std::string ServerVersion();

// The document at /version.
base::Json VersionDocument();

}  // namespace berth::apiserver
