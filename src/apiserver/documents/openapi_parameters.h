// The parameters of requests, in OpenAPI's form. Pure.
#pragma once

#include <initializer_list>
#include <string_view>

#include "apiserver/documents/openapi_schema.h"

namespace berth::apiserver {

// Groups of query parameters.
enum class QueryGroup { kList, kWrite, kForce, kDelete, kLog, kCommand, kStream, kPorts };

// The parameters of an operation: all of `groups`, each once.
Json QueryParameters(std::initializer_list<QueryGroup> groups, OpenApi version);

// A part of a path: "namespace" or "name".
Json PathParameter(std::string_view name, std::string_view description, OpenApi version);
// ?pretty, which every operation has.
Json PrettyParameter(OpenApi version);

}  // namespace berth::apiserver
