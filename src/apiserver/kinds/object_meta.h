// The rules of metadata that all kinds share: which fields a client may set, which fields the
// server sets, and which may change.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/kinds/kind_rules.h"
#include "base/clock.h"

namespace berth::apiserver {

// 400 unless `object` is an object of `info`. Absent apiVersion, kind and metadata are filled in.
base::Status CheckShape(const api::KindInfo& info, Json& object);

// Sets the namespace of the URL; 400 if the body names another. An object of a cluster-scoped kind
// loses its namespace.
base::Status FillNamespace(const api::KindInfo& info, std::string_view ns, Json& object);

// Prepares a new object: removes the fields that a client cannot choose, and sets uid and
// creationTimestamp. A name from generateName is chosen later. `uid` and `now` are the server's.
void StampNew(const KindRules& rules, Json& object, std::string_view uid, base::WallTime now);

// A name from generateName: its first 58 characters and 5 random ones.
std::string GenerateName(std::string_view prefix);

// Copies from `old` the fields that an update cannot change. `old` has no resourceVersion.
// FieldTracker handles managedFields, not this function or StampNew.
void KeepSystemFields(Json& object, const Json& old);

// Checks names, labels, annotations, finalizers and owners.
void ValidateMetadata(const KindRules& rules, const Json& object, FieldErrors& errors);
// If the client sends fields that the server set, they must be unchanged.
void ValidateKeptMetadata(const Json& object, const Json& old, FieldErrors& errors);
// Refuses new finalizers on an object that is being deleted.
void ValidateMetadataUpdate(const Json& object, const Json& old, FieldErrors& errors);

// Takes from `old` all members that a write of the status may not change.
void KeepAllButStatus(const KindRules& rules, Json& object, const Json& old);

}  // namespace berth::apiserver
