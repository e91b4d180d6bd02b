#include "apiserver/custom/custom_kind.h"

#include <deque>

#include "apiserver/custom/definition.h"
#include "apiserver/custom/object_rules.h"
#include "apiserver/custom/object_shape.h"
#include "apiserver/custom/printer_columns.h"
#include "apiserver/custom/schema_tree.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

struct CustomVersion {
  explicit CustomVersion(const Json& columns) : columns(columns) {}

  api::KindInfo info;
  bool served = false;
  StructuralPtr schema;
  api::SchemaArena arena;
  PrinterColumns columns;
  std::unique_ptr<KindRules> rules;
};

// "com.example.v1.Widget" for Widget of example.com/v1, as OpenAPI names it.
std::string OpenApiName(std::string_view group, std::string_view version, std::string_view kind) {
  std::vector<std::string_view> parts;
  while (!group.empty()) {
    const size_t dot = std::min(group.find('.'), group.size());
    parts.insert(parts.begin(), group.substr(0, dot));
    group.remove_prefix(std::min(dot + 1, group.size()));
  }
  return fmt::format("{}.{}.{}", fmt::join(parts, "."), version, kind);
}

// All versions of a definition, and the texts that their KindInfos point to.
class Family {
 public:
  Family(const Json& definition, const KindRegistry& registry)
      : registry_(registry),
        group_(String(definition, {"spec", "group"})),
        names_(Map(definition, {"status", "acceptedNames"})),
        terminating_(Find(definition, {"metadata", "deletionTimestamp"}) != nullptr),
        changed_since_(Int(definition, {"metadata", "generation"}) > 1) {
    const bool namespaced = String(definition, {"spec", "scope"}) == "Namespaced";
    for (const Json& version : Array(definition, {"spec", "versions"})) {
      AddVersion(version, namespaced);
    }
    for (CustomVersion& version : versions_) {
      version.info.stored_as = &storage_->info;
      MakeRules(version);
    }
  }
  Family(const Family&) = delete;

  std::deque<CustomVersion>& versions() { return versions_; }

 private:
  // Return texts that live as long as the family.
  std::string_view KeepText(std::string text) { return texts_.emplace_back(std::move(text)); }
  std::vector<std::string_view> KeepTexts(std::string_view list) {
    std::vector<std::string_view> out;
    for (const Json& name : Array(names_, {list})) {
      if (name.is_string()) out.push_back(KeepText(name.get<std::string>()));
    }
    return out;
  }

  void AddVersion(const Json& json, bool namespaced) {
    CustomVersion& made = versions_.emplace_back(Array(json, {"additionalPrinterColumns"}));
    made.info = {.group = group_,
                 .version = KeepText(String(json, {"name"})),
                 .kind = KeepText(String(names_, {"kind"})),
                 .plural = KeepText(String(names_, {"plural"})),
                 .singular = KeepText(String(names_, {"singular"})),
                 .short_names = KeepTexts("shortNames"),
                 .namespaced = namespaced,
                 .has_status = Find(json, {"subresources", "status"}) != nullptr,
                 .categories = KeepTexts("categories")};
    made.served = Bool(json, {"served"});
    made.schema = ReadSchema(Map(json, {"schema", "openAPIV3Schema"}));
    if (Bool(json, {"storage"}) || storage_ == nullptr) storage_ = &made;
    made.rules = std::make_unique<KindRules>(made.info);
    made.rules->schema = MakeSchemaTree(
        *made.schema, OpenApiName(group_, made.info.version, made.info.kind), made.arena);
    made.rules->custom_schema = base::json::Dump(Map(json, {"schema", "openAPIV3Schema"}));
    FieldErrors ignored;  // a rule that does not compile refuses every object (object_rules)
    CompileRules(*made.schema, "", ignored);
    made.rules->list_kind = String(names_, {"listKind"}, fmt::format("{}List", made.info.kind));
    for (const Json& field : Array(json, {"selectableFields"})) {
      const std::string path = String(field, {"jsonPath"});
      if (path.starts_with('.')) made.rules->selectable_fields.push_back(path.substr(1));
    }
    made.rules->has_scale = Find(json, {"subresources", "scale"}) != nullptr;
    if (Bool(json, {"deprecated"})) {
      made.rules->deprecation =
          String(json, {"deprecationWarning"},
                 fmt::format("{}/{} {} is deprecated", group_, made.info.version, made.info.kind));
    }
  }

  void MakeRules(CustomVersion& version) {
    KindRules& rules = *version.rules;
    const StructuralSchema& schema = *version.schema;
    rules.custom = true;
    rules.terminating = terminating_;
    rules.counts_generation = true;
    rules.counts_all_changes = true;
    rules.update_needs_version = true;
    rules.shape = [&schema](Json& object) {
      PruneUnknown(schema, object, true);
      DropNulls(schema, object);
    };
    rules.defaults = [&schema](Json& object) { ApplyDefaults(schema, object); };
    rules.admit_status = [&schema](Json& object, const Json&, base::WallTime) {
      ApplyDefaults(schema, object);
    };
    rules.admit_create = [this, &version](Json&, Lookup&) { return AdmitNew(version); };
    rules.validate_create = [&schema](const Json& object, FieldErrors& errors) {
      ValidateObject(schema, object, nullptr, errors);
    };
    rules.validate_update = [&schema](const Json& object, const Json& old, FieldErrors& errors) {
      ValidateObject(schema, object, &old, errors);
    };
    rules.validate_status = rules.validate_update;
    // Objects that were written before the schema last changed are read with the new schema.
    rules.reads_through_schema = changed_since_;
    rules.from_stored = [this, &version](Json& object) { FromStored(version, object); };
    rules.to_stored = [this, &version](Json& object) { ToStored(version, object); };
    rules.columns = [&version] { return version.columns.MakeDefinitions(); };
    rules.cells = [&version](const Json& object, base::WallTime now) {
      return version.columns.MakeCells(object, now);
    };
  }

  static void ValidateObject(const StructuralSchema& schema, const Json& object, const Json* old,
                             FieldErrors& errors) {
    FieldErrors found;
    CheckObject(schema, object, old, "", found);
    if (!found.blocking()) {
      CheckRules(schema, object, old, found);
    } else if (schema.has_rules) {
      found.Invalid("<nil>", "null",
                    "some validation rules were not checked because the object was invalid; "
                    "correct the existing errors to complete validation");
    }
    errors.Append(found);
  }

  base::Status AdmitNew(const CustomVersion& version) const {
    const api::KindInfo& info = version.info;
    const KindPtr served = registry_.Current()->Find(info.group, info.version, info.plural);
    if (served == nullptr) {
      return KubeError(Reason::kNotFound, "the server could not find the requested resource");
    }
    if (!served->terminating) return base::OkStatus();
    return KubeError(Reason::kMethodNotAllowed,
                     "create not allowed while custom resource definition is terminating");
  }

  CustomVersion* StoredVersion(const Json& object) {
    const std::string stored = String(object, {"apiVersion"});
    for (CustomVersion& version : versions_) {
      if (version.info.api_version() == stored) return &version;
    }
    return storage_;
  }

  // An object first gets the defaults of the version in which it was stored. Then it is reduced to
  // the members of the requested version.
  void FromStored(const CustomVersion& version, Json& object) {
    const CustomVersion& stored = *StoredVersion(object);
    PruneUnknown(*stored.schema, object, true);
    DropNulls(*stored.schema, object);
    ApplyDefaults(*stored.schema, object);
    if (&stored != &version) PruneUnknown(*version.schema, object, true);
    object["apiVersion"] = version.info.api_version();
    object["kind"] = std::string(version.info.kind);
  }

  void ToStored(const CustomVersion& version, Json& object) {
    if (&version != storage_) PruneUnknown(*storage_->schema, object, true);
    object["apiVersion"] = storage_->info.api_version();
  }

  const KindRegistry& registry_;
  const std::string group_;
  const Json names_;
  const bool terminating_;
  const bool changed_since_;
  std::deque<std::string> texts_;
  std::deque<CustomVersion> versions_;
  CustomVersion* storage_ = nullptr;
};

}  // namespace

std::vector<KindPtr> MakeCustomKinds(const Json& definition, const KindRegistry& registry) {
  const auto family = std::make_shared<Family>(definition, registry);
  std::vector<KindPtr> kinds;
  for (CustomVersion& version : family->versions()) {
    if (version.served) kinds.emplace_back(family, version.rules.get());
  }
  return kinds;
}

std::string InstancePrefix(const Json& definition) {
  return fmt::format("/{}.{}/", String(definition, {"spec", "names", "plural"}),
                     String(definition, {"spec", "group"}));
}

}  // namespace berth::apiserver
