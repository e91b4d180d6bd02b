// What a write makes of an object: the pure part of create, update, patch and delete.
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

// The conditions that an update carries in its own metadata: uid and resourceVersion. 409 if `old`,
// at `revision`, does not meet them.
base::Status CheckUpdatePreconditions(const KindRules& rules, const Json& object, const Json& old,
                                      store::Revision revision);

// A new object, decoded and with its namespace, becomes what is stored. With `object` having only a
// generateName the name is chosen here.
base::Status PrepareNew(const KindRules& rules, Json& object, const FieldTracker& tracker,
                        Lookup& lookup, base::WallTime now);

// `object` (a whole object as the client wants it) becomes the successor of `old` (without
// resourceVersion). `subresource` is "", "status", "finalize" or "ephemeralcontainers".
base::Status PrepareUpdate(const KindRules& rules, Json& object, const Json& old,
                           std::string_view subresource, const FieldTracker& tracker,
                           Lookup& lookup, base::WallTime now);

// What follows from an updated object: a write, none if nothing changed, or the removal of one that
// only waited for its finalizers. 413 for one that patches have made larger or deeper than a
// request could.
base::StatusOr<Mutation::Plan> PlanUpdate(const KindRules& rules, const Json& object,
                                          const store::Record& current);

struct DeleteRequest {
  std::optional<int64_t> grace_seconds;
  std::string uid;  // preconditions; empty: none
  std::string resource_version;
  bool dry_run = false;
  Propagation propagation;
};

// From the body's DeleteOptions (null if there is none). KubeError for malformed ones.
base::StatusOr<DeleteRequest> ParseDeleteOptions(const Json& body);

// The delete of `current`: its removal, or the mark that asks the owners of its finalizers (for a
// pod: the node agent) to finish. 409 if a precondition fails.
base::StatusOr<Mutation::Plan> PlanDelete(const KindRules& rules, const store::Record& current,
                                          const DeleteRequest& request, base::WallTime now);

}  // namespace berth::apiserver
