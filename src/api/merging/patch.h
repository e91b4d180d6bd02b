// The three kinds of PATCH bodies of the Kubernetes API, applied to a document. Pure.
//
// INVALID_ARGUMENT: the patch is malformed (HTTP 400). FAILED_PRECONDITION: the patch is well
// formed, but cannot be applied to the document, because of a failed "test" or a missing path (HTTP
// 422).
#pragma once

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// RFC 6902, with the exceptions of Kubernetes: "replace" adds a missing member, and "test" for null
// passes if the member is missing. RESOURCE_EXHAUSTED: there are more than 10,000 operations, they
// move very many values, or one puts a value deeper than 100 levels. FAILED_PRECONDITION also if
// the operations copy more than 3 MiB.
base::StatusOr<base::Json> ApplyJsonPatch(base::Json document, const base::Json& patch);

// RFC 7396: null removes a member, objects are merged, and all other values are replaced.
base::StatusOr<base::Json> ApplyMergePatch(base::Json document, const base::Json& patch);

// Whether strategic merge patches can be applied to objects of `kind`. They can for Kubernetes' own
// kinds, but not for custom ones (HTTP 415).
bool SupportsStrategicMerge(const KindInfo& kind);

// Kubernetes' strategic merge: as a merge patch, but some lists (containers, conditions, ...) are
// merged by a key and sorted by the patch, and there are the directives $patch (replace, delete),
// $setElementOrder/FIELD, $deleteFromPrimitiveList/FIELD and $retainKeys. UNKNOWN: a directive does
// not exist or an item has no merge key, for which Kubernetes answers 500 without a reason.
base::StatusOr<base::Json> ApplyStrategicMergePatch(const KindInfo& kind, base::Json document,
                                                    const base::Json& patch);

}  // namespace berth::api
