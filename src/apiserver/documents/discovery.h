// The discovery documents /api, /apis and the paths below them: the groups, versions and resources,
// generated from the served kinds. Pure.
//
// Every document has a plain form. /api and /apis also have an aggregated form
// (apidiscovery.k8s.io/v2 and v2beta1), with which a client learns all resources in two requests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/kinds/served_resources.h"
#include "base/json.h"
#include "http/message.h"

namespace berth::apiserver {

// Makes the document at `path` (decoded, without query); nullopt if there is none. An aggregated
// document has an ETag, and a client that already has the document gets a 304. `server_address`,
// "host:port", may be empty. 406 if the client accepts none of the forms.
std::optional<http::Response> MakeDiscoveryDocument(Kinds kinds, std::string_view path,
                                                    const http::Request& request,
                                                    std::string_view server_address);

// The paths of all discovery documents, for the index at "/".
std::vector<std::string> ListDiscoveryPaths(Kinds kinds);

}  // namespace berth::apiserver
