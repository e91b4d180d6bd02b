// Who manages which fields of an object: metadata.managedFields, maintained as Kubernetes does it.
//
// A plain write (create, update, patch) makes its writer the manager of the fields that it sets or
// changes, and removes them from all others. An applied configuration (server-side apply) is merged
// into the object, and its writer manages exactly the fields that it states. A field that it stated
// before and no longer states is removed, unless somebody else manages it. To change a field that
// another manages is a conflict, unless the writer forces it. Fields that only the server sets
// (metadata.uid and the like) have no manager. Pure.
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

// INVALID_ARGUMENT for what is no list of well-formed entries.
base::StatusOr<ManagedFields> ParseManagedFields(const base::Json& list);
// The list, in Kubernetes' order.
base::Json ManagedFieldsJson(const ManagedFields& managed);

// Whether a client asks to forget all managers: `list` is empty, or holds one empty entry.
bool IsManagedFieldsReset(const base::Json& list);

// Whether two lists differ in nothing but their times.
bool SameButTimes(const base::Json& a, const base::Json& b);

// Who writes.
struct FieldWriter {
  std::string manager;
  std::string api_version;
  std::string subresource;
  std::string time;
};

// The managers after a plain write that changed `before` (null: nothing) to `after`. An object
// without managers stays without. Beyond ten managers the oldest are merged into "ancient-changes".
ManagedFields TrackWrite(const Schema* schema, const base::Json& before, const base::Json& after,
                         ManagedFields managed, const FieldWriter& writer);

// Fields of another manager that an applied configuration would change.
struct ApplyConflict {
  std::string manager;  // as messages name it: "mgr" using v1
  FieldSet fields;
};

struct ApplyResult {
  // Empty if the configuration can be applied. Otherwise the other members hold what force would
  // give.
  std::vector<ApplyConflict> conflicts;
  base::Json object;
  ManagedFields managed;
};

// Applies `config` to `live` (null: there is no object yet). Neither has managedFields.
// INVALID_ARGUMENT as CheckApplied. Members of the result may be null where `config` says so.
//
// kubectl's own configuration is applied without a conflict over what `kubectl apply` without
// --server-side has set (the annotation last-applied-configuration); that annotation is updated,
// too.
base::StatusOr<ApplyResult> ApplyConfiguration(const Schema* schema, const base::Json& live,
                                               const base::Json& config, ManagedFields managed,
                                               const FieldWriter& writer, bool force);

}  // namespace berth::api
