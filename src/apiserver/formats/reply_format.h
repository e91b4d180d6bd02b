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

// The format for one media range. If the range includes several, JSON comes before YAML, and YAML
// before protobuf, as in kube-apiserver; nullopt if it includes none. `schema` describes the
// objects (null: not known, so there is no protobuf).
std::optional<Format> FormatIn(const MediaRange& range, const api::Schema* schema);

// The format that the client prefers for objects of `schema`; nullopt if it accepts none.
std::optional<Format> FormatFor(const http::Request& request, const api::Schema* schema);
// A 406 that lists the supported formats. `list`: the resource can also be watched at this path.
base::Status NotAcceptableError(const http::Request& request, const api::Schema* schema, bool list);

// Converts `json`, the text of an object or list with its apiVersion and kind, to `format`. nullopt
// if there is no protobuf message for the object, or if the text is damaged and `format` is YAML.
std::optional<std::string> WriteObject(Format format, std::string_view json);

// Makes an answer with an object, given as JSON text, in the format that the client prefers; JSON
// if the client accepts none of the formats, or if the object cannot be converted.
http::Response ObjectResponse(const http::Request& request, int code, std::string json);

}  // namespace berth::apiserver
