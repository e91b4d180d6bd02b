// Decodes a request's body (JSON, YAML or protobuf, by its Content-Type) into an object whose
// fields have the types of its kind.
//
// The query's `fieldValidation` decides what happens with unknown and duplicate fields: nothing
// (Ignore), warnings with the answer (Warn, the default), or a refusal (Strict).
#pragma once

#include <string_view>

#include "api/merging/conform.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

// The body as an object of the request's kind, with its apiVersion and kind. 400 for a body that is
// malformed, of another kind or of wrong types; 415 for another Content-Type.
base::StatusOr<Json> DecodeObject(const ResourceRequest& request);

// The body as another object, such as DeleteOptions or a TokenRequest; null if there is no body.
// `kind` is the name of the kind that `schema` describes, for messages.
base::StatusOr<Json> DecodeBody(const ResourceRequest& request, const api::Schema* schema,
                                std::string_view kind);

// Makes `object`, which was not decoded from a body, conform to its kind. Unknown fields are no
// error. 400 for wrong types.
base::Status ConformObject(const KindRules& rules, Json& object);

// Handles the errors in `strict` as the client's fieldValidation asks: ignores them, adds warnings,
// or returns 400 "CONTEXT: ERRORS".
base::Status Report(const ResourceRequest& request, const api::StrictErrors& strict,
                    std::string_view context);
// Adds the keys that a YAML text has twice, with the messages of Kubernetes' YAML parser.
void AddYamlDuplicates(const std::vector<std::string>& duplicates, api::StrictErrors& strict);

// Parses the JSON `text` of a patch and adds its duplicate fields to `strict`.
base::StatusOr<Json> DecodePatch(std::string_view text, api::StrictErrors& strict);

// Makes a patched object conform to its kind. `strict` holds the errors of the patch itself. 422 if
// the result no longer has the types of the kind.
base::Status ConformPatched(const ResourceRequest& request, Json& object,
                            api::StrictErrors& strict);

}  // namespace berth::apiserver
