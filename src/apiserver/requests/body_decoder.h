// Decodes a request's body (JSON, YAML or protobuf, by its Content-Type) into an object whose
// fields have the types of its kind.
//
// The query's `fieldValidation` decides what happens with unknown and duplicate fields: nothing
// (Ignore), warnings with the answer (Warn, the default), or a refusal (Strict).
#pragma once

#include <string_view>

#include "api/merging/conform.h"
#include "apiserver/requests/resource_request.h"

namespace berth::apiserver {

// Decodes the body as an object of the request's kind, with its apiVersion and kind. 400 for a body
// that is malformed, of another kind or of wrong types; 415 for another Content-Type. An unknown
// `fieldValidation` is 422.
base::StatusOr<Json> DecodeObject(const ResourceRequest& request);

// Decodes the body as another object, such as DeleteOptions or a TokenRequest; null if there is no
// body. `kind` is the kind that `schema` describes. Unknown fields are no error. 400 and 415 as
// DecodeObject.
base::StatusOr<Json> DecodeBody(const ResourceRequest& request, const api::Schema* schema,
                                std::string_view kind);

// Gives the fields of `object`, which DecodeObject has not decoded, the types of its kind. Unknown
// fields are no error. 400 if a field cannot have its type.
base::Status ConformObject(const KindRules& rules, Json& object);

// Handles the errors in `strict` as the client's fieldValidation asks: ignores them, adds warnings,
// or returns 400 "CONTEXT: ERRORS". An unknown fieldValidation is 422.
base::Status ReportStrictErrors(const ResourceRequest& request, const api::StrictErrors& strict,
                                std::string_view context);
// Adds `duplicates`, one line for each key that a YAML text has twice, to `strict` as one error,
// with the text of Kubernetes' YAML parser.
void AddYamlDuplicates(const std::vector<std::string>& duplicates, api::StrictErrors& strict);

// Parses the JSON `text` of a patch and adds its duplicate fields to `strict`. 400 if it is
// malformed.
base::StatusOr<Json> DecodePatch(std::string_view text, api::StrictErrors& strict);

// Gives the fields of a patched object the types of its kind. `strict` holds the errors of the
// patch itself; those of the object are added and handled as the client's fieldValidation asks. 422
// if a field cannot have its type, or for errors in `strict` with fieldValidation=Strict; 400 if
// the patch changed apiVersion or kind.
base::Status ConformPatched(const ResourceRequest& request, Json& object,
                            api::StrictErrors& strict);

}  // namespace berth::apiserver
