// Whole OpenAPI documents of the kinds that are served, as text. Pure; one takes some milliseconds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/documents/openapi_schema.h"
#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

// Version 3, about the kinds of one group and version: `kinds` are those.
std::string OpenApiV3Document(const std::vector<KindPtr>& kinds);

// Version 2, about all kinds; as JSON, or in protobuf.
std::string OpenApiV2Document(const std::vector<KindPtr>& kinds);
std::string OpenApiV2Message(const std::vector<KindPtr>& kinds);

}  // namespace berth::apiserver
