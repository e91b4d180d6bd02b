// The managers of an object's fields: metadata.managedFields, maintained as in Kubernetes.
//
// A plain write (create, update, patch) makes its writer the manager of the fields that it sets or
// changes, and removes them from all others. An applied configuration (server-side apply) is merged
// into the object, and its writer manages exactly the fields in it. A field that was in the
// writer's last configuration and is not in this one is removed, unless it has another manager. It
// is a conflict to change a field of another manager, unless the writer forces the change. Fields
// that only the server sets (metadata.uid and the like) have no manager. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// An element of metadata.managedFields.
struct ManagedEntry {
  std::string manager;
  bool applied = false;  // operation Apply, else Update
  std::string api_version;
  std::string subresource;  // "status", or empty
  std::string time;         // RFC 3339; empty if unknown
  FieldSet fields;
};
using ManagedFields = std::vector<ManagedEntry>;

// INVALID_ARGUMENT: `list` is not a list of well-formed entries.
base::StatusOr<ManagedFields> ParseManagedFields(const base::Json& list);
// Returns the list, in Kubernetes' order.
base::Json ManagedFieldsJson(const ManagedFields& managed);

// Whether `list`, written by a client, asks the server to remove all managers: it is empty, or has
// one empty entry.
bool IsManagedFieldsReset(const base::Json& list);

// Whether two lists are equal except for their times.
bool EqualExceptTimes(const base::Json& a, const base::Json& b);

// The writer of a change.
struct FieldWriter {
  std::string manager;
  std::string api_version;
  std::string subresource;
  std::string time;
};

// The managers after a plain write that changed `before` (null: nothing) to `after`. An object
// without managers stays without. Beyond ten entries of plain writes, the oldest ones of each
// version are merged into one entry, "ancient-changes".
ManagedFields TrackWrite(const Schema* schema, const base::Json& before, const base::Json& after,
                         ManagedFields managed, const FieldWriter& writer);

// Fields of another manager that an applied configuration would change.
struct ApplyConflict {
  std::string manager;  // as messages name it: "mgr" using v1
  FieldSet fields;
};

struct ApplyResult {
  // Empty: the configuration can be applied. Otherwise the other members are the result that
  // `force` would have.
  std::vector<ApplyConflict> conflicts;
  base::Json object;
  ManagedFields managed;
};

// Applies `config` to `live` (null: there is no object yet). Neither has managedFields.
// INVALID_ARGUMENT as CheckApplied. A member of the result is null if it is null in `config`.
//
// If the writer is kubectl, fields that `kubectl apply` without --server-side has set (they are in
// the annotation last-applied-configuration) are no conflict, and that annotation is updated.
base::StatusOr<ApplyResult> ApplyConfiguration(const Schema* schema, const base::Json& live,
                                               const base::Json& config, ManagedFields managed,
                                               const FieldWriter& writer, bool force);

}  // namespace berth::api
