// Computes the result of a write: the pure part of create, update, patch and delete.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apiserver/kinds/field_tracker.h"
#include "apiserver/kinds/kind_rules.h"
#include "apiserver/kinds/propagation.h"
#include "apiserver/mutation.h"

namespace berth::apiserver {

// 400 unless the object has the name of the URL.
base::Status CheckName(const Json& object, std::string_view name);

// Checks the preconditions that an update carries in its own metadata: uid and resourceVersion. 409
// if `old`, at `revision`, does not meet them.
base::Status CheckUpdatePreconditions(const KindRules& rules, const Json& object, const Json& old,
                                      store::Revision revision);

// Turns a new object, decoded and with its namespace, into the object to store. If `object` has
// only a generateName, the name is chosen here. 422 if validation fails; other errors come from
// admission.
base::Status PrepareNew(const KindRules& rules, Json& object, const FieldTracker& tracker,
                        Lookup& lookup, base::WallTime now);

// Turns `object` (the whole object that the client wants) into the successor of `old` (without
// resourceVersion). `subresource` is "", "status", "finalize" or "ephemeralcontainers". Errors as
// PrepareNew.
base::Status PrepareUpdate(const KindRules& rules, Json& object, const Json& old,
                           std::string_view subresource, const FieldTracker& tracker,
                           Lookup& lookup, base::WallTime now);

// The plan for an updated object: a write, nothing if it did not change, or the removal of an
// object that was only waiting for its finalizers. 413 for an object that patches have made larger
// or deeper than a request may be.
base::StatusOr<Mutation::Plan> PlanUpdate(const KindRules& rules, const Json& object,
                                          const store::Record& current);

struct DeleteRequest {
  std::optional<int64_t> grace_seconds;
  std::string uid;  // preconditions; empty: none
  std::string resource_version;
  bool dry_run = false;
  Propagation propagation;
};

// Parses the body's DeleteOptions (null if there are none). 400 or 422 if they are malformed.
base::StatusOr<DeleteRequest> ParseDeleteOptions(const Json& body);

// The plan for deleting `current`: its removal, or the mark that asks the owners of its finalizers
// (for a pod also the node agent) to finish. 409 if a precondition fails.
base::StatusOr<Mutation::Plan> PlanDelete(const KindRules& rules, const store::Record& current,
                                          const DeleteRequest& request, base::WallTime now);

}  // namespace berth::apiserver
