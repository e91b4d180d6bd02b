// Updates metadata.managedFields on a write (api/merging/managed_fields.h).
//
// A tracker knows the manager who writes. PrepareNew and PrepareUpdate (write_rules.h) call it
// after the object got its defaults and before admission, because no manager asked for the fields
// that admission adds.
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

// The manager of the objects that the server itself creates.
inline constexpr const char* kServerManager = "berth";

// The manager that the query names, otherwise the program in the User-Agent. 422 for a name that is
// too long or has unprintable characters, and for `force`, which only an apply may have.
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
  // An apply, which has already computed the managers.
  static FieldTracker OfApply(const api::ManagedFields& managed);

  // Sets metadata.managedFields of `object`, the successor of `old` (null: it is new).
  void SetManagedFields(const KindRules& rules, Json& object, const Json* old) const;
  // Takes the times of managedFields from `old` if nothing else differs, because such a write must
  // change nothing.
  static void KeepTimes(Json& object, const Json& old);

 private:
  bool applied_ = false;
  Json managed_;  // of an apply
  api::FieldWriter writer_;
};

}  // namespace berth::apiserver
