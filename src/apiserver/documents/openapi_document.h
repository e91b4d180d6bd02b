// Makes whole OpenAPI documents of the kinds that are served, as text. Pure. Making one takes some
// milliseconds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/documents/openapi_schema.h"
#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

// Version 3; `kinds` are the kinds of one group and version.
std::string MakeOpenApiV3Document(const std::vector<KindPtr>& kinds);

// Version 2, about all kinds; as JSON, or in protobuf.
std::string MakeOpenApiV2Document(const std::vector<KindPtr>& kinds);
std::string MakeOpenApiV2Message(const std::vector<KindPtr>& kinds);

}  // namespace berth::apiserver
