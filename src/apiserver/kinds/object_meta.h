// The rules of metadata that all kinds share: what a client may set, what the server sets, what may
// change.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/kinds/kind_rules.h"
#include "base/clock.h"

namespace berth::apiserver {

// 400 unless `object` is an object of `info`. Absent apiVersion, kind and metadata are filled in.
base::Status CheckShape(const api::KindInfo& info, Json& object);

// Sets the namespace of the URL; 400 if the body names another.
base::Status FillNamespace(const api::KindInfo& info, std::string_view ns, Json& object);

// Prepares a new object: what the client cannot choose goes, uid and creationTimestamp are set. The
// name is not chosen yet if generateName is to do it. `uid` and `now` are the server's.
void StampNew(const KindRules& rules, Json& object, std::string_view uid, base::WallTime now);

// A name from generateName: its first 58 characters and 5 random ones.
std::string GenerateName(std::string_view prefix);

// Carries over what an update cannot change. `old` has no resourceVersion. Who manages which field
// is left to FieldTracker, here and in StampNew.
void KeepSystemFields(Json& object, const Json& old);

void ValidateMetadata(const KindRules& rules, const Json& object, FieldErrors& errors);
// What the server set, if the client repeats it, it repeats unchanged.
void ValidateKeptMetadata(const Json& object, const Json& old, FieldErrors& errors);
// No new finalizer on an object that is being deleted.
void ValidateMetadataUpdate(const Json& object, const Json& old, FieldErrors& errors);

// The members that a write of the status may not change are taken from `old`.
void KeepAllButStatus(const KindRules& rules, Json& object, const Json& old);

}  // namespace berth::apiserver
