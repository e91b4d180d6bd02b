// What the server serves, as documents generated from the kind table: /version, /api, /apis and
// below. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "apiserver/http_message.h"
#include "base/json.h"

namespace berth::apiserver {

// The document at `path` (decoded, without query); nullopt if there is none. `accept` is the
// request's Accept header: /api and /apis also come aggregated.
std::optional<Response> DiscoveryDocument(std::string_view path, std::string_view accept);

}  // namespace berth::apiserver
