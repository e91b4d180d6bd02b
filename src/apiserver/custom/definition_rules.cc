// The rules of CustomResourceDefinition itself: its defaults, its validation, and which fields may
// change.

#include <map>
#include <set>

#include "api/names.h"
#include "apiserver/custom/definition.h"
#include "apiserver/custom/json_path.h"
#include "apiserver/custom/object_rules.h"
#include "apiserver/custom/schema_check.h"
#include "apiserver/custom/schema_tree.h"
#include "apiserver/kinds/kind_rules.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kApproval = "api-approved.kubernetes.io";
constexpr std::string_view kApprovalPolicy = "https://github.com/kubernetes/enhancements/pull/1111";
constexpr size_t kMaxSelectableFields = 8;
constexpr size_t kMaxVersions = 100;

bool HasStatus(const Json& version) { return Find(version, {"subresources", "status"}) != nullptr; }

// ---- defaults and status

void DefaultDefinition(Json& object) {
  const std::string kind = String(object, {"spec", "names", "kind"});
  if (!kind.empty()) {
    SetDefault(object, {"spec", "names", "singular"}, api::LowerCase(kind));
    SetDefault(object, {"spec", "names", "listKind"}, kind + "List");
  }
  SetDefault(object, {"spec", "conversion"}, {{"strategy", "None"}});
}

// Adds the storage version to status.storedVersions, because objects may be stored in it from now
// on.
void AddStoredVersion(Json& object) {
  Json stored = Array(object, {"status", "storedVersions"});
  for (const Json& version : Array(object, {"spec", "versions"})) {
    if (!Bool(version, {"storage"})) continue;
    const std::string name = String(version, {"name"});
    if (std::find(stored.begin(), stored.end(), name) == stored.end()) stored.push_back(name);
  }
  base::json::Set(object, {"status", "storedVersions"}, std::move(stored));
}

base::Status AdmitNewDefinition(Json& object, Lookup&) {
  AddStoredVersion(object);
  return base::OkStatus();
}

base::Status AdmitDefinitionUpdate(Json& object, const Json&, Lookup&) {
  AddStoredVersion(object);
  return base::OkStatus();
}

// Adds the finalizer that the definition controller removes when no object is left, because the
// objects must be deleted before their definition.
void AddCleanupFinalizer(Json& object) { AddFinalizer(object, kCleanupFinalizer); }

void MarkDefinitionTerminating(Json& object) {
  SetCondition(object, {.type = "Terminating",
                        .status = "True",
                        .reason = "InstanceDeletionPending",
                        .message = "CustomResourceDefinition marked for deletion; CustomResource "
                                   "deletion will begin soon",
                        .time = String(object, {"metadata", "deletionTimestamp"})});
}

// ---- names

void CheckLabel(const std::string& field, const Json& value, const std::string& checked,
                std::string_view prefix, FieldErrors& errors) {
  const base::Status status = api::CheckDns1035Label(checked);
  if (!status.ok()) {
    errors.Invalid(field, value, fmt::format("{}{}", prefix, base::Message(status)));
  }
}

void CheckNames(const Json& names, const std::string& field, FieldErrors& errors) {
  for (const char* name : {"plural", "singular"}) {
    const std::string value = String(names, {name});
    if (!value.empty()) CheckLabel(ChildField(field, name), value, value, "", errors);
  }
  for (const char* name : {"kind", "listKind"}) {
    const std::string value = String(names, {name});
    if (!value.empty()) {
      CheckLabel(ChildField(field, name), value, api::LowerCase(value),
                 "may have mixed case, but should otherwise match: ", errors);
    }
  }
  for (const char* list : {"shortNames", "categories"}) {
    size_t i = 0;
    for (const Json& name : Array(names, {list})) {
      CheckLabel(fmt::format("{}.{}[{}]", field, list, i++), name,
                 name.is_string() ? name.get<std::string>() : "", "", errors);
    }
  }
  const std::string kind = String(names, {"kind"});
  if (!kind.empty() && kind == String(names, {"listKind"})) {
    errors.Invalid(ChildField(field, "listKind"), kind, "kind and listKind may not be the same");
  }
}

void CheckGroupAndNames(const Json& object, FieldErrors& errors) {
  const Json& spec = Map(object, {"spec"});
  const std::string group = String(spec, {"group"});
  if (group.empty()) {
    errors.Required("spec.group");
  } else if (const base::Status status = api::CheckDns1123Subdomain(group); !status.ok()) {
    errors.Check("spec.group", group, status);
  } else if (group.find('.') == std::string::npos) {
    errors.Invalid("spec.group", group, "should be a domain with at least one dot");
  }
  const std::string scope = String(spec, {"scope"});
  if (scope.empty()) {
    errors.Required("spec.scope");
  } else if (scope != "Cluster" && scope != "Namespaced") {
    errors.NotSupported("spec.scope", scope, {"Cluster", "Namespaced"});
  }
  for (const char* name : {"plural", "singular", "kind", "listKind"}) {
    if (String(spec, {"names", name}).empty()) errors.Required(ChildField("spec.names", name));
  }
  CheckNames(Map(spec, {"names"}), "spec.names", errors);
  const std::string name = String(object, {"metadata", "name"});
  if (name != fmt::format("{}.{}", String(spec, {"names", "plural"}), group)) {
    errors.Invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
  }
}

void CheckApproval(const Json& object, FieldErrors& errors) {
  const std::string field = fmt::format("metadata.annotations[{}]", kApproval);
  switch (ApprovalOf(object)) {
    case Approval::kNotNeeded:
    case Approval::kApproved:
    case Approval::kBypassed:
      return;
    case Approval::kMissing:
      return errors.Required(
          field, fmt::format("protected groups must have approval annotation \"{}\", see {}",
                             kApproval, kApprovalPolicy));
    case Approval::kMalformed:
      return errors.Invalid(
          field, String(object, {"metadata", "annotations", kApproval}),
          fmt::format("protected groups must have approval annotation \"{}\" with either a URL or "
                      "a reason starting with \"unapproved\", see {}",
                      kApproval, kApprovalPolicy));
  }
}

// ---- versions

void CheckVersions(const Json& versions, FieldErrors& errors) {
  if (versions.empty()) errors.Required("spec.versions");
  if (versions.size() > kMaxVersions)
    errors.TooMany("spec.versions", versions.size(), kMaxVersions);
  std::set<std::string> names;
  size_t storage = 0;
  size_t i = 0;
  bool unique = true;
  for (const Json& version : versions) {
    const std::string name = String(version, {"name"});
    CheckLabel(fmt::format("spec.versions[{}].name", i++), name, name, "", errors);
    unique &= names.insert(name).second;
    storage += Bool(version, {"storage"}) ? 1 : 0;
  }
  if (!unique) errors.Invalid("spec.versions", versions, "must contain unique version names");
  if (storage != 1) {
    errors.Invalid("spec.versions", versions,
                   "must have exactly one version marked as storage version");
  }
}

void CheckDeprecation(const Json& version, const std::string& field, FieldErrors& errors) {
  const Json* warning = Find(version, {"deprecationWarning"});
  if (warning == nullptr || !warning->is_string()) return;
  const auto& text = warning->get_ref<const std::string&>();
  const auto invalid = [&](std::string_view why) {
    errors.Invalid(field + ".deprecationWarning", *warning, why);
  };
  if (!Bool(version, {"deprecated"})) return invalid("can only be set for deprecated versions");
  if (text.empty()) invalid("must not be an empty string");
  if (text.size() > 256) invalid("must be <= 256 characters long");
  // The text is checked because it becomes part of a header.
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x20 && text[i] != 0x7F) continue;
    return invalid(fmt::format(
        "must only contain printable UTF-8 characters; non-printable character found at index {}",
        i));
  }
}

bool CheckSimplePath(const std::string& path, const std::string& field, FieldErrors& errors) {
  if (path.empty()) {
    errors.Required(field);
  } else if (!path.starts_with('.')) {
    errors.Invalid(field, path, "must be a simple json path starting with .");
  } else {
    return true;
  }
  return false;
}

// The names of a version's members in errors. While all versions agree in a member, Kubernetes
// keeps it for the whole definition, and names it as a member of the spec.
class VersionFields {
 public:
  explicit VersionFields(const Json& versions) : versions_(versions) {}

  // The name of `member` of the version at `index`. `shared` is the one of the whole definition; it
  // is returned for the first version only, and an empty one for the others, so that a check runs
  // once.
  std::string Name(size_t index, const char* member, std::string_view shared) {
    const auto [agrees, fresh] = agrees_.try_emplace(member, false);
    if (fresh) agrees->second = Agree(member);
    if (!agrees->second) return fmt::format("spec.versions[{}].{}", index, member);
    return index == 0 ? fmt::format("spec.{}", shared) : "";
  }

 private:
  bool Agree(std::string_view member) const {
    const Json* first = Find(versions_.front(), {member});
    return std::all_of(versions_.begin(), versions_.end(), [&](const Json& version) {
      const Json* own = Find(version, {member});
      return first == nullptr || own == nullptr ? first == own : *first == *own;
    });
  }

  const Json& versions_;
  std::map<std::string_view, bool> agrees_;
};

void CheckColumn(const Json& column, const std::string& field, FieldErrors& errors) {
  static const std::set<std::string> kTypes = {"boolean", "date", "integer", "number", "string"};
  static const std::set<std::string> kFormats = {"byte",  "date",  "date-time", "double",
                                                 "float", "int32", "int64",     "password"};
  if (String(column, {"name"}).empty()) errors.Required(field + ".name");
  const std::string type = String(column, {"type"});
  const auto one_of = [](const std::set<std::string>& set) {
    return fmt::format("must be one of {}", fmt::join(set, ","));
  };
  if (type.empty()) {
    errors.Required(field + ".type", one_of(kTypes));
  } else if (!kTypes.contains(type)) {
    errors.Invalid(field + ".type", type, one_of(kTypes));
  }
  const std::string format = String(column, {"format"});
  if (!format.empty() && !kFormats.contains(format)) {
    errors.Invalid(field + ".format", format, one_of(kFormats));
  }
  CheckSimplePath(String(column, {"jsonPath"}), field + ".JSONPath", errors);
}

// Checks the fields by which objects can be selected. Each must be a scalar that the schema
// declares.
void CheckSelectable(const Json& version, const std::string& field, FieldErrors& errors) {
  const Json& fields = Array(version, {"selectableFields"});
  if (fields.size() > kMaxSelectableFields) {
    errors.TooMany(field, fields.size(), kMaxSelectableFields);
  }
  std::set<std::string> seen;
  size_t i = 0;
  for (const Json& one : fields) {
    const std::string at = fmt::format("{}[{}].jsonPath", field, i++);
    const std::string path = String(one, {"jsonPath"});
    if (!CheckSimplePath(path, at, errors)) continue;
    if (!seen.insert(path).second) errors.Duplicate(at, path);
    if (path.starts_with(".metadata")) {
      errors.Invalid(at, path, "must not point to fields in metadata");
      continue;
    }
    const Json* schema = Find(version, {"schema", "openAPIV3Schema"});
    for (std::string_view rest = path; !rest.empty() && schema != nullptr;) {
      rest.remove_prefix(1);
      const size_t dot = std::min(rest.find('.'), rest.size());
      schema = Find(*schema, {"properties", rest.substr(0, dot)});
      rest.remove_prefix(dot);
    }
    if (schema == nullptr) {
      errors.Invalid(at, path, "is an invalid path: does not refer to a valid field");
      continue;
    }
    const std::string type = String(*schema, {"type"});
    if (type != "string" && type != "boolean" && type != "integer") {
      errors.Invalid(at, path, "must point to a field of type boolean, integer or string");
    }
  }
}

void CheckScale(const Json& version, const std::string& field, FieldErrors& errors) {
  const Json* scale = Find(version, {"subresources", "scale"});
  if (scale == nullptr) return;
  const std::pair<const char*, std::string_view> paths[] = {{"specReplicasPath", ".spec."},
                                                            {"statusReplicasPath", ".status."}};
  for (const auto& [name, prefix] : paths) {
    const std::string at = fmt::format("{}.scale.{}", field, name);
    const std::string path = String(*scale, {name});
    if (CheckSimplePath(path, at, errors) && !path.starts_with(prefix)) {
      errors.Invalid(
          at, path,
          fmt::format("should be a json path under {}", prefix.substr(0, prefix.size() - 1)));
    }
  }
}

void CheckVersionSchema(const Json& json, bool has_status, const std::string& at,
                        FieldErrors& errors) {
  FieldErrors own;
  CheckSchema(json, at, has_status, own);
  // Defaults and rules are checked only if the schema itself has no errors.
  if (own.empty()) {
    const StructuralPtr schema = ReadSchema(json);
    api::SchemaArena arena;
    MakeSchemaTree(*schema, "", arena);
    CheckDefaults(*schema, at, own);
    CompileRules(*schema, at, own);
  }
  errors.Append(own);
}

void CheckConversion(const Json& object, FieldErrors& errors) {
  const std::string strategy = String(object, {"spec", "conversion", "strategy"});
  if (strategy.empty()) {
    errors.Required("spec.conversion.strategy");
  } else if (strategy == "Webhook") {
    errors.NotSupported("spec.conversion.strategy", strategy, {"None"});
  } else if (strategy != "None") {
    errors.NotSupported("spec.conversion.strategy", strategy, {"None", "Webhook"});
  }
  if (Find(object, {"spec", "conversion", "webhook"}) != nullptr && strategy == "None") {
    errors.Forbidden("spec.conversion.webhook",
                     "should not be set when strategy is not set to Webhook");
  }
}

void ValidateDefinition(const Json& object, FieldErrors& errors) {
  CheckGroupAndNames(object, errors);
  CheckApproval(object, errors);
  const Json& versions = Array(object, {"spec", "versions"});
  CheckVersions(versions, errors);
  VersionFields fields(versions);
  const bool any_status = std::any_of(versions.begin(), versions.end(), HasStatus);
  for (size_t i = 0; i < versions.size(); ++i) {
    const Json& version = versions[i];
    CheckDeprecation(version, fmt::format("spec.versions[{}]", i), errors);
    const std::string schema = fields.Name(i, "schema", "validation");
    if (const Json* json = Find(version, {"schema", "openAPIV3Schema"}); json == nullptr) {
      errors.Required(fmt::format("spec.versions[{}].schema.openAPIV3Schema", i),
                      "schemas are required");
    } else if (!schema.empty()) {
      const bool shared = schema == "spec.validation";
      CheckVersionSchema(*json, shared ? any_status : HasStatus(version),
                         schema + ".openAPIV3Schema", errors);
    }
    const std::string subresources = fields.Name(i, "subresources", "subresources");
    if (!subresources.empty()) CheckScale(version, subresources, errors);
    const std::string columns =
        fields.Name(i, "additionalPrinterColumns", "additionalPrinterColumns");
    if (!columns.empty()) {
      size_t column = 0;
      for (const Json& one : Array(version, {"additionalPrinterColumns"})) {
        CheckColumn(one, ItemField(columns, column++), errors);
      }
    }
    const std::string selectable = fields.Name(i, "selectableFields", "selectableFields");
    if (!selectable.empty()) CheckSelectable(version, selectable, errors);
  }
  CheckConversion(object, errors);
  if (Bool(object, {"spec", "preserveUnknownFields"})) {
    errors.Invalid("spec.preserveUnknownFields", true,
                   "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                   "spec.versions[*].schema instead");
  }
  CheckNames(Map(object, {"status", "acceptedNames"}), "status.acceptedNames", errors);
}

// Checks that each version in which objects may be stored is still in the definition.
void CheckStoredVersions(const Json& object, FieldErrors& errors) {
  const Json& stored = Array(object, {"status", "storedVersions"});
  if (stored.empty()) {
    return errors.Invalid("status.storedVersions", stored, "must have at least one stored version");
  }
  std::set<std::string> names;
  for (const Json& version : Array(object, {"spec", "versions"})) {
    const std::string name = String(version, {"name"});
    names.insert(name);
    if (Bool(version, {"storage"}) &&
        std::find(stored.begin(), stored.end(), name) == stored.end()) {
      errors.Invalid("status.storedVersions", stored, "must have the storage version " + name);
    }
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    const std::string name = stored[i].is_string() ? stored[i].get<std::string>() : "";
    if (names.contains(name)) continue;
    errors.Invalid(
        fmt::format("status.storedVersions[{}]", i), stored[i],
        fmt::format("missing from spec.versions; {0} was previously a storage version, and must "
                    "remain in spec.versions until a storage migration ensures no data remains "
                    "persisted in {0} and removes {0} from status.storedVersions",
                    name));
  }
}

void ValidateDefinitionUpdate(const Json& object, const Json& old, FieldErrors& errors) {
  const auto fixed = [&](base::json::Path path, std::string_view field) {
    errors.Immutable(field, Find(object, path), Find(old, path));
  };
  if (IsConditionTrue(old, "Established")) {
    fixed({"spec", "scope"}, "spec.scope");
    fixed({"spec", "names", "kind"}, "spec.names.kind");
  }
  fixed({"spec", "group"}, "spec.group");
  fixed({"spec", "names", "plural"}, "spec.names.plural");
  CheckStoredVersions(object, errors);
}

void ValidateDefinitionStatus(const Json& object, const Json&, FieldErrors& errors) {
  CheckNames(Map(object, {"status", "acceptedNames"}), "status.acceptedNames", errors);
  CheckStoredVersions(object, errors);
}

}  // namespace

void AddDefinitionRules(std::vector<KindRules>& rules) {
  KindRules definition(api::kinds::kCustomResourceDefinition);
  definition.counts_generation = true;
  definition.update_needs_version = true;
  definition.delete_returns_object = true;
  definition.initial_status = {{"conditions", Json::array()},
                               {"acceptedNames", {{"kind", ""}, {"plural", ""}}},
                               {"storedVersions", Json::array()}};
  definition.defaults = DefaultDefinition;
  definition.admit_create = AdmitNewDefinition;
  definition.admit_update = AdmitDefinitionUpdate;
  definition.before_delete = AddCleanupFinalizer;
  definition.on_delete = MarkDefinitionTerminating;
  definition.validate = ValidateDefinition;
  definition.validate_update = ValidateDefinitionUpdate;
  definition.validate_status = ValidateDefinitionStatus;
  rules.push_back(std::move(definition));
}

}  // namespace berth::apiserver
