// In which format objects go out: JSON, YAML or Kubernetes' protobuf, as the client's Accept header
// has it. Everything before this edge works with JSON. Pure.
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
// preference; nullopt if the range includes none. `schema` is of the objects (null: not known).
std::optional<Format> FormatIn(const MediaRange& range, const api::Schema* schema);

// The format that the client likes best for objects of `schema`; nullopt if it accepts none.
std::optional<Format> FormatFor(const http::Request& request, const api::Schema* schema);
// 406 that lists what is on offer.
base::Status NotAcceptableError(const api::Schema* schema);

// `json`, the text of an object or list with its apiVersion and kind, in `format`; nullopt if it
// can't be written so (Kubernetes has no message for it).
std::optional<std::string> WriteObject(Format format, std::string_view json);

// An answer with an object, given as JSON text, in the format that the client likes best; in JSON
// if it accepts none, since then there is no better way to say so.
http::Response ObjectResponse(const http::Request& request, int code, std::string json);

}  // namespace berth::apiserver
