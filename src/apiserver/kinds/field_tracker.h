// How metadata.managedFields follows a write (api/merging/managed_fields.h).
//
// A tracker knows who writes; PrepareNew and PrepareUpdate (write_rules.h) call it once the object
// has its defaults, and before admission adds what nobody asked for.
#pragma once

#include <string>
#include <string_view>

#include "api/merging/managed_fields.h"
#include "apiserver/kinds/kind_rules.h"
#include "base/clock.h"
#include "http/message.h"

namespace berth::apiserver {

// The kinds of options that a write can carry, as errors name them.
inline constexpr std::string_view kCreateOptions = "CreateOptions";
inline constexpr std::string_view kUpdateOptions = "UpdateOptions";
inline constexpr std::string_view kPatchOptions = "PatchOptions";

// The manager of what the server makes by itself.
inline constexpr const char* kServerManager = "berth";

// The manager that the query names, else the program that the User-Agent names. 422 for a name that
// is too long or has characters that don't print, and for `force`, which is for applies only.
base::StatusOr<std::string> FieldManagerOf(const http::Request& request, const http::Query& query,
                                           std::string_view options_kind);
// The manager of an apply, which the query has to name.
base::StatusOr<std::string> ApplyManagerOf(const http::Query& query);

// The managers that a stored object lists; none if it has none.
api::ManagedFields ManagedFieldsOf(const Json& object);

class FieldTracker {
 public:
  // A plain write. The client may have edited the managers in the object itself, unless it writes a
  // subresource.
  static FieldTracker OfWriter(std::string manager, std::string_view subresource,
                               base::WallTime now);
  // An apply, which has worked out the managers already.
  static FieldTracker OfApply(const api::ManagedFields& managed);

  // Sets the managers of `object`, the successor of `old` (null: it is new).
  void Track(const KindRules& rules, Json& object, const Json* old) const;
  // Keeps the times that `old` has if they are all that differs: such a write changes nothing.
  static void KeepTimes(Json& object, const Json& old);

 private:
  bool applied_ = false;
  Json managed_;  // of an apply
  api::FieldWriter writer_;
};

}  // namespace berth::apiserver
