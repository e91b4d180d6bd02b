// Chooses and writes the format of objects in answers: JSON, YAML or Kubernetes' protobuf, as the
// Accept header asks. All other code works with JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "apiserver/formats/media_range.h"
#include "base/status.h"
#include "http/message.h"

namespace berth::apiserver {

enum class Format { kJson, kYaml, kProtobuf };

std::string_view MediaType(Format format);

// The format of one media range that is best for the client, in the order of kube-apiserver's
// preference; nullopt if the range includes none. `schema` describes the objects (null: not known).
std::optional<Format> FormatIn(const MediaRange& range, const api::Schema* schema);

// The format that the client likes best for objects of `schema`; nullopt if it accepts none.
std::optional<Format> FormatFor(const http::Request& request, const api::Schema* schema);
// A 406 that lists the supported formats.
base::Status NotAcceptableError(const api::Schema* schema);

// `json`, the text of an object or list with its apiVersion and kind, in `format`; nullopt if the
// object has no form in that format (there is no protobuf message for it).
std::optional<std::string> WriteObject(Format format, std::string_view json);

// An answer with an object, given as JSON text, in the format that the client likes best; JSON if
// the client accepts none of the formats.
http::Response ObjectResponse(const http::Request& request, int code, std::string json);

}  // namespace berth::apiserver
