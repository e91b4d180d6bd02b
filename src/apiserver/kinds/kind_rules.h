// The rules of a kind: defaults, admission, validation, immutability, and how its verbs behave.
// Each row of api/kind_info.h has one KindRules; each family of kinds has one kinds_*.cc.
//
// The order on a write: defaults, admit, validate (and validate_create or validate_update). All but
// admission are pure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "api/schema/schema.h"
#include "apiserver/formats/field_errors.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

using base::Json;

// Reads other objects for admission. They come without resourceVersion.
class Lookup {
 public:
  virtual ~Lookup() = default;
  virtual base::StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name) = 0;  // NOT_FOUND
  virtual base::StatusOr<std::vector<Json>> List(const api::KindInfo& kind) = 0;
};

struct KindRules {
  explicit KindRules(const api::KindInfo& info) : info(&info) {}

  // The kind of the lists of this kind: "PodList".
  std::string list() const {
    return list_kind.empty() ? fmt::format("{}List", info->kind) : list_kind;
  }

  const api::KindInfo* info;
  // The types of its fields; null if they are not known.
  const api::Schema* schema = nullptr;
  // For a custom resource: its definition's openAPIV3Schema as JSON text, for OpenAPI. Otherwise
  // empty.
  std::string custom_schema;

  // How names are checked; CheckDns1123Subdomain if null.
  std::function<base::Status(std::string_view name)> check_name;
  bool counts_generation = false;      // metadata.generation follows changes of the spec
  bool update_needs_version = false;   // PUT without resourceVersion is 422
  bool create_on_update = false;       // PUT of a missing object creates it
  bool delete_returns_object = false;  // a delete answers with the object and not with a Status
  bool graceful = false;               // a delete waits for the node agent
  bool created_with_status = false;    // else a new object starts with `initial_status`
  bool status_keeps_metadata = false;  // labels and annotations may be written with the status
  // An object is removed only when spec.finalizers is empty, too. PUT of /finalize writes them.
  bool has_spec_finalizers = false;
  // Brings an object that a client sent into shape: removes unknown members from a custom resource,
  // and makes fields of a built-in kind that say the same agree.
  std::function<void(Json& object)> shape;

  // Custom resources (src/apiserver/custom).
  bool custom = false;
  bool terminating = false;         // no new objects, because its definition is being deleted
  bool counts_all_changes = false;  // metadata.generation follows all but metadata and status
  bool has_scale = false;           // declares /scale, which is not served
  std::string list_kind;            // empty: the kind and "List"
  std::string deprecation;          // the warning for its users; empty: none
  // Paths by which objects can be selected ("spec.color"), besides those of api/selector.h.
  std::vector<std::string> selectable_fields;
  // Convert between the stored form and the form of this version (stored_form.h).
  std::function<void(Json& object)> from_stored;
  std::function<void(Json& object)> to_stored;
  // Stored objects must pass from_stored even if they were stored in this version.
  bool reads_through_schema = false;
  // As TableColumns and TableCells (table.h).
  std::function<Json()> columns;
  std::function<Json(const Json& object, base::WallTime now)> cells;

  // Status that a new object starts with; null if none.
  Json initial_status;
  std::function<void(Json& object)> defaults;
  std::function<base::Status(Json& object, Lookup& lookup)> admit_create;
  std::function<base::Status(Json& object, const Json& old, Lookup& lookup)> admit_update;
  // For a write of the status; `old` is the object before.
  std::function<void(Json& object, const Json& old, base::WallTime now)> admit_status;
  // Called before a delete marks the object; may add a finalizer, so that the object stays.
  std::function<void(Json& object)> before_delete;
  // Called after a delete has marked the object (deletionTimestamp).
  std::function<void(Json& object)> on_delete;
  // 403 for objects that must stay.
  std::function<base::Status(std::string_view name)> forbid_delete;
  std::function<void(const Json& object, FieldErrors& errors)> validate;
  std::function<void(const Json& object, FieldErrors& errors)> validate_create;
  std::function<void(const Json& object, const Json& old, FieldErrors& errors)> validate_update;
  std::function<void(const Json& object, const Json& old, FieldErrors& errors)> validate_status;
  // In place of validate_update, for pods/NAME/ephemeralcontainers.
  std::function<void(const Json& object, const Json& old, FieldErrors& errors)> validate_ephemeral;
};

// Shared, because a request keeps the rules with which it began (kind_registry.h).
using KindPtr = std::shared_ptr<const KindRules>;

// The rules of a built-in kind; `info` must be a row of api::BuiltInKinds().
const KindRules& RulesFor(const api::KindInfo& info);

// Each adds the rules of one family.
void AddCoreRules(std::vector<KindRules>& rules);
void AddEventRules(std::vector<KindRules>& rules);
void AddPodRules(std::vector<KindRules>& rules);
void AddVolumeRules(std::vector<KindRules>& rules);
void AddStorageRules(std::vector<KindRules>& rules);
void AddNodeRules(std::vector<KindRules>& rules);
void AddAppRules(std::vector<KindRules>& rules);
void AddBerthRules(std::vector<KindRules>& rules);
void AddDefinitionRules(std::vector<KindRules>& rules);

// Helpers that the families share.

// Sets the member if it is absent.
void SetDefault(Json& object, base::json::Path path, Json value);
// The member, which the caller may change; nullptr if it is absent.
Json* FindMutable(Json& object, base::json::Path path);
// Adds `finalizer` to metadata.finalizers unless it is there already.
void AddFinalizer(Json& object, std::string_view finalizer);

}  // namespace berth::apiserver
