// The discovery documents /api, /apis and those below: the groups, versions and resources,
// generated from the served kinds. Pure.
//
// Every document comes in its own form; /api and /apis also aggregated
// (apidiscovery.k8s.io/v2 and v2beta1), which tells of all resources in two requests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/kinds/served_resources.h"
#include "base/json.h"
#include "http/message.h"

namespace berth::apiserver {

// The document at `path` (decoded, without query); nullopt if there is none. An aggregated document
// has an ETag, and a client that already has it gets a 304. `server_address`, "host:port", may be
// empty. 406 if the client accepts none of the forms.
std::optional<http::Response> DiscoveryDocument(Kinds kinds, std::string_view path,
                                                const http::Request& request,
                                                std::string_view server_address);

// The paths of all discovery documents, for the index at "/".
std::vector<std::string> DiscoveryPaths(Kinds kinds);

}  // namespace berth::apiserver
