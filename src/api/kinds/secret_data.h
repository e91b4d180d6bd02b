// Decodes the values of a Secret. Pure.
#pragma once

#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::api {

// Secret.data, decoded. INVALID_ARGUMENT: a value is not base64. No message holds a value.
base::StatusOr<std::map<std::string, std::string>> DecodeSecretData(const Secret& secret);

}  // namespace berth::api
