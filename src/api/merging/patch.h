// The three kinds of PATCH bodies of the Kubernetes API, applied to a document. Pure.
//
// Errors: INVALID_ARGUMENT for a malformed patch (HTTP 400); FAILED_PRECONDITION for one that is
// well formed but does not fit the document, such as a failed "test" or a missing path (HTTP 422).
#pragma once

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// RFC 6902, as lenient as Kubernetes: "replace" of a missing member adds it, and "test" for null
// passes if the member is missing. At most 10,000 operations.
base::StatusOr<base::Json> ApplyJsonPatch(base::Json document, const base::Json& patch);

// RFC 7396: null removes, objects are merged, all else is replaced.
base::StatusOr<base::Json> ApplyMergePatch(base::Json document, const base::Json& patch);

// Whether objects of `kind` take strategic merge patches: Kubernetes' own kinds do, custom ones do
// not (HTTP 415).
bool SupportsStrategicMerge(const KindInfo& kind);

// Kubernetes' strategic merge: as a merge patch, except that some lists (containers, conditions,
// ...) are merged by a key, with the directives $patch (replace, delete, merge),
// $setElementOrder/FIELD, $deleteFromPrimitiveList/FIELD and $retainKeys.
base::StatusOr<base::Json> ApplyStrategicMergePatch(const KindInfo& kind, base::Json document,
                                                    const base::Json& patch);

}  // namespace berth::api
