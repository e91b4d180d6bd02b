// What a request's body says: JSON, YAML or protobuf by its Content-Type, as an object whose fields
// have the types of its kind.
//
// How much a client wants to hear of unknown and duplicate fields is its `fieldValidation`: nothing
// (Ignore), warnings with the answer (Warn, the default), or a refusal (Strict).
#pragma once

#include <string_view>

#include "api/merging/conform.h"
#include "apiserver/api_context.h"

namespace berth::apiserver {

// The body as an object of the request's kind, with its apiVersion and kind. 400 for what is
// malformed, of another kind or of wrong types; 415 for another Content-Type.
base::StatusOr<Json> DecodeObject(const ResourceRequest& request);

// The body as another object, such as DeleteOptions or a TokenRequest; null if there is none.
// `kind` is what `schema` is of, for messages.
base::StatusOr<Json> DecodeBody(const ResourceRequest& request, const api::Schema* schema,
                                std::string_view kind);

// Makes `object`, which is no body as it stands, conform to its kind, whatever unknown fields it
// has. 400 for wrong types.
base::Status ConformObject(const KindRules& rules, Json& object);

// Refuses `strict` or warns of it, as the client's fieldValidation has it: 400 "CONTEXT: ERRORS".
base::Status Report(const ResourceRequest& request, const api::StrictErrors& strict,
                    std::string_view context);
// The keys that a YAML text has twice, as Kubernetes' reader of YAML complains of them.
void AddYamlDuplicates(const std::vector<std::string>& duplicates, api::StrictErrors& strict);

// A patch, whose `text` was read as JSON: its duplicate fields are kept in mind.
base::StatusOr<Json> DecodePatch(std::string_view text, api::StrictErrors& strict);

// Makes what a patch has made of an object conform to its kind. `strict` has what the patch itself
// had. 422 for what no longer fits.
base::Status ConformPatched(const ResourceRequest& request, Json& object,
                            api::StrictErrors& strict);

}  // namespace berth::apiserver
