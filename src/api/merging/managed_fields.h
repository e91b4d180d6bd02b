// Who manages which fields of an object: metadata.managedFields, kept up as Kubernetes does.
//
// A plain write (create, update, patch) hands its writer the fields that it sets or changes, and
// takes them from all others. An applied configuration (server-side apply) is merged into the
// object: its writer manages exactly what it states; what it stated before and no longer does is
// removed unless somebody else manages it; what others manage and it would change is a conflict,
// unless it is forced. Fields that only the server sets (metadata.uid and the like) have no
// manager. Pure.
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

// A client asks to forget all managers: `list` is empty, or holds one empty entry.
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

// The managers after a plain write that made `after` of `before` (null: of nothing). An object that
// has no managers goes on without. Beyond ten the oldest are merged into "ancient-changes".
ManagedFields TrackWrite(const Schema* schema, const base::Json& before, const base::Json& after,
                         ManagedFields managed, const FieldWriter& writer);

// Fields of another manager that an applied configuration would change.
struct ApplyConflict {
  std::string manager;  // as messages name it: "mgr" using v1
  FieldSet fields;
};

struct ApplyResult {
  // Empty if the configuration can be applied; else the rest is what force would give.
  std::vector<ApplyConflict> conflicts;
  base::Json object;
  ManagedFields managed;
};

// Applies `config` to `live` (null: there is no object yet). Neither has managedFields.
// INVALID_ARGUMENT as CheckApplied. Members of the result may be null where `config` says so.
//
// kubectl's own configuration is applied without a conflict where it meets what `kubectl apply`
// without --server-side left (the annotation last-applied-configuration); the annotation is kept up
// to date.
base::StatusOr<ApplyResult> ApplyConfiguration(const Schema* schema, const base::Json& live,
                                               const base::Json& config, ManagedFields managed,
                                               const FieldWriter& writer, bool force);

}  // namespace berth::api
