#include "api/merging/managed_fields.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "api/merging/typed_fields.h"
#include "api/merging/typed_merge.h"
#include "api/merging/typed_value.h"
#include "api/time.h"

namespace berth::api {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;
using base::json::Find;
using base::json::String;

namespace {

constexpr size_t kMaxUpdateManagers = 10;
constexpr std::string_view kAncientChanges = "ancient-changes";
constexpr std::string_view kBeforeFirstApply = "before-first-apply";
constexpr std::string_view kKubectl = "kubectl";
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

// Fields without a manager, because the server sets them or they identify the object.
const FieldSet& SystemFields() {
  static const FieldSet fields = [] {
    FieldSet metadata;
    for (const char* name : {"name", "namespace", "creationTimestamp", "selfLink", "uid",
                             "clusterName", "generation", "managedFields", "resourceVersion"}) {
      metadata.Add(FieldElement(name));
    }
    FieldSet out;
    out.Add(FieldElement("apiVersion"));
    out.Add(FieldElement("kind"));
    out.Add(FieldElement("metadata"), true, std::move(metadata));
    return out;
  }();
  return fields;
}

// Whether the entry's fields are fields of the writer's version of the object. Versions of one
// group have the same fields here, because custom resources are not converted. The same object in
// another group (events) has other fields.
bool HasSameFields(const ManagedEntry& entry, const FieldWriter& writer) {
  return GroupOf(entry.api_version) == GroupOf(writer.api_version);
}

// Finds the writer's own entry; nullptr if there is none. A writer has one entry for all versions
// that it applies, and one for each version that it updates.
ManagedEntry* FindOwnEntry(ManagedFields& managed, const FieldWriter& writer, bool applied) {
  for (ManagedEntry& entry : managed) {
    if (entry.manager == writer.manager && entry.applied == applied &&
        entry.subresource == writer.subresource &&
        (applied || entry.api_version == writer.api_version)) {
      return &entry;
    }
  }
  return nullptr;
}

ManagedEntry MakeEntry(const FieldWriter& writer, bool applied, FieldSet fields) {
  return {.manager = writer.manager,
          .applied = applied,
          .api_version = writer.api_version,
          .subresource = writer.subresource,
          .time = writer.time,
          .fields = std::move(fields)};
}

// FollowSchema for the entries of the writer's group.
void FollowSchemaInGroup(const Schema* schema, const Json& object, const FieldWriter& writer,
                         ManagedFields& managed) {
  std::vector<FieldSet*> sets;
  for (ManagedEntry& entry : managed) {
    if (HasSameFields(entry, writer)) sets.push_back(&entry.fields);
  }
  FollowSchema(schema, object, sets);
}

void DropEmptyEntries(ManagedFields& managed) {
  std::erase_if(managed, [](const ManagedEntry& entry) { return entry.fields.empty(); });
}

// The object before its first write, for the comparison with `after`: it has empty metadata, spec
// and status and empty required objects and lists, if `after` has them.
Json MakeBlank(const Schema* schema, const Json& after, bool root) {
  Json out = after.is_array() ? Json::array() : Json::object();
  if (schema == nullptr || !after.is_object()) return out;
  for (const auto& [name, value] : after.items()) {
    if (!value.is_structured()) continue;
    const Field* field = schema->type == FieldType::kObject ? schema->Find(name) : nullptr;
    const bool always = root && (name == "metadata" || name == "spec" || name == "status");
    if (field == nullptr || (!field->required && !always)) continue;
    if (ShapeOf(field->type, value) == ValueShape::kLeaf) continue;
    out[name] = MakeBlank(field->type, value, false);
  }
  return out;
}

// Returns the index of the entry that collects the old changes of `version`. If there is none, the
// entry `oldest` becomes it.
size_t FindAncientEntry(ManagedFields& managed, const std::string& version, size_t oldest) {
  for (size_t i = 0; i < managed.size(); ++i) {
    if (managed[i].manager == kAncientChanges && !managed[i].applied &&
        managed[i].api_version == version && managed[i].subresource.empty()) {
      return i;
    }
  }
  managed[oldest].manager = kAncientChanges;
  managed[oldest].subresource.clear();
  return oldest;
}

// If there are too many entries of updates, merges the oldest ones of each version into one entry.
void CapUpdateManagers(ManagedFields& managed) {
  std::vector<size_t> updates;
  for (size_t i = 0; i < managed.size(); ++i) {
    if (!managed[i].applied) updates.push_back(i);
  }
  size_t count = updates.size();
  if (count <= kMaxUpdateManagers) return;
  std::sort(updates.begin(), updates.end(), [&](size_t a, size_t b) {
    return std::tie(managed[a].time, managed[a].manager) <
           std::tie(managed[b].time, managed[b].manager);
  });
  std::map<std::string, size_t> oldest_of_version;
  for (const size_t i : updates) {
    if (count <= kMaxUpdateManagers) break;
    ManagedEntry& entry = managed[i];
    const auto [it, is_oldest] = oldest_of_version.emplace(entry.api_version, i);
    if (is_oldest) continue;
    const size_t into = FindAncientEntry(managed, entry.api_version, it->second);
    if (into == i) continue;
    managed[into].fields = managed[into].fields.Union(entry.fields);
    managed[into].time = entry.time;  // the later one
    entry.fields = {};
    --count;
  }
  DropEmptyEntries(managed);
}

// The name of a manager in the message of a conflict.
std::string DescribeManager(const ManagedEntry& entry) {
  std::string out = base::json::Dump(entry.manager);
  if (!entry.subresource.empty()) {
    out += fmt::format(" with subresource {}", base::json::Dump(entry.subresource));
  }
  if (!entry.applied) out += fmt::format(" using {}", entry.api_version);
  return out;
}

// Returns `merged` without the fields of `last` that are not in `managed`.
Json PruneFields(const Schema* schema, const Json& merged, const FieldSet& last,
                 const FieldSet& managed) {
  const auto fields = [schema](const Json& object) {
    return WithNamedParents(schema, FieldsOf(schema, object));
  };
  const FieldSet last_named = WithNamedParents(schema, last);
  const FieldSet all = fields(merged);
  const FieldSet kept =
      fields(RemoveFields(schema, merged, last_named)).Union(WithNamedParents(schema, managed));
  // The last step keeps fields that are not in `last`, but were removed with a parent.
  const Json without = RemoveFields(schema, merged, all.Difference(kept));
  return RemoveFields(schema, merged, all.Difference(fields(without)).Intersection(last_named));
}

// Makes the writer the manager of exactly the fields of `config`. Returns the fields that it
// managed before.
FieldSet ReplaceOwnFields(const Schema* schema, const Json& config, const FieldWriter& writer,
                          ManagedFields& managed) {
  FieldSet stated = FieldsOf(schema, config, SystemFields());
  ManagedEntry* own = FindOwnEntry(managed, writer, /*applied=*/true);
  if (own == nullptr) {
    managed.push_back(MakeEntry(writer, /*applied=*/true, std::move(stated)));
    return {};
  }
  own->api_version = writer.api_version;
  own->time = writer.time;
  return std::exchange(own->fields, std::move(stated));
}

// The fields of the last client-side apply that still have its values.
FieldSet LastAppliedFields(const Schema* schema, const Json& live, const FieldWriter& writer) {
  const std::string text = String(live, {"metadata", "annotations", kLastApplied});
  const auto config = base::json::Parse(text);
  if (!config.ok() || !config->is_object()) return {};
  if (String(*config, {"apiVersion"}) != writer.api_version) return {};
  const Comparison comparison = CompareFields(schema, *config, live);
  return FieldsOf(schema, *config)
      .Difference(comparison.modified)
      .Difference(comparison.added)
      .Difference(comparison.removed);
}

// Removes the conflicts over the fields in `allowed`, which `kubectl apply` itself has set.
void DropConflicts(std::vector<ApplyConflict>& conflicts, const FieldSet& allowed) {
  for (ApplyConflict& conflict : conflicts) {
    conflict.fields = conflict.fields.Difference(allowed);
  }
  std::erase_if(conflicts, [](const ApplyConflict& conflict) { return conflict.fields.empty(); });
}

void RefreshLastApplied(const Json& config, Json& object) {
  if (String(object, {"metadata", "annotations", kLastApplied}).empty()) return;
  Json applied = config;
  base::json::Remove(applied, {"metadata", "annotations", kLastApplied});
  base::json::Set(object, {"metadata", "annotations", kLastApplied},
                  base::json::Dump(applied) + "\n");
}

StatusOr<ManagedEntry> ParseEntry(const Json& json) {
  const auto bad = [](std::string_view what) {
    return Error(StatusCode::kInvalidArgument, "managedFields: {}", what);
  };
  if (!json.is_object()) return bad("an entry is not an object");
  ManagedEntry entry{.manager = String(json, {"manager"}),
                     .api_version = String(json, {"apiVersion"}),
                     .subresource = String(json, {"subresource"})};
  const std::string operation = String(json, {"operation"});
  if (operation != "Apply" && operation != "Update") {
    return bad("operation must be `Apply` or `Update`");
  }
  entry.applied = operation == "Apply";
  if (entry.api_version.empty()) return bad("apiVersion must not be empty");
  if (String(json, {"fieldsType"}) != "FieldsV1") return bad("fieldsType must be `FieldsV1`");
  if (const Json* time = Find(json, {"time"}); time != nullptr && !time->is_null()) {
    ASSIGN_OR_RETURN(const base::WallTime parsed, ParseTime(String(json, {"time"})));
    entry.time = FormatTime(parsed);
  }
  if (const Json* fields = Find(json, {"fieldsV1"}); fields != nullptr && !fields->is_null()) {
    ASSIGN_OR_RETURN(entry.fields, FieldSet::FromJson(*fields));
  }
  return entry;
}

}  // namespace

StatusOr<ManagedFields> ParseManagedFields(const Json& list) {
  if (!list.is_array()) return Error(StatusCode::kInvalidArgument, "managedFields is not a list");
  ManagedFields out;
  out.reserve(list.size());
  for (const Json& json : list) {
    ASSIGN_OR_RETURN(ManagedEntry entry, ParseEntry(json));
    out.push_back(std::move(entry));
  }
  return out;
}

Json ManagedFieldsJson(const ManagedFields& managed) {
  std::vector<const ManagedEntry*> sorted;
  for (const ManagedEntry& entry : managed) sorted.push_back(&entry);
  const auto order = [](const ManagedEntry& entry) {
    return std::make_tuple(!entry.applied, std::string_view(entry.time),
                           std::string_view(entry.manager), std::string_view(entry.api_version),
                           std::string_view(entry.subresource));
  };
  std::sort(sorted.begin(), sorted.end(), [&order](const ManagedEntry* a, const ManagedEntry* b) {
    return order(*a) < order(*b);
  });
  Json out = Json::array();
  for (const ManagedEntry* entry : sorted) {
    Json json = {{"manager", entry->manager},
                 {"operation", entry->applied ? "Apply" : "Update"},
                 {"apiVersion", entry->api_version},
                 {"fieldsType", "FieldsV1"},
                 {"fieldsV1", entry->fields.ToJson()}};
    if (!entry->time.empty()) json["time"] = entry->time;
    if (!entry->subresource.empty()) json["subresource"] = entry->subresource;
    out.push_back(std::move(json));
  }
  return out;
}

bool IsManagedFieldsReset(const Json& list) {
  return list.is_array() && (list.empty() || (list.size() == 1 && list[0] == Json::object()));
}

bool EqualExceptTimes(const Json& a, const Json& b) {
  if (!a.is_array() || !b.is_array() || a.size() != b.size()) return a == b;
  const auto covers = [](const Json& entry, const Json& other) {
    return std::all_of(entry.items().begin(), entry.items().end(), [&other](const auto& member) {
      const auto it = other.find(member.key());
      return member.key() == "time" || (it != other.end() && *it == member.value());
    });
  };
  return std::equal(a.begin(), a.end(), b.begin(), [&covers](const Json& x, const Json& y) {
    return x.is_object() && y.is_object() && covers(x, y) && covers(y, x);
  });
}

ManagedFields TrackWrite(const Schema* schema, const Json& before, const Json& after,
                         ManagedFields managed, const FieldWriter& writer) {
  if (!before.is_null() && managed.empty()) return managed;
  if (!before.is_null()) FollowSchemaInGroup(schema, before, writer, managed);
  const Json blank = before.is_null() ? MakeBlank(schema, after, true) : Json();
  const Comparison changes =
      CompareFields(schema, before.is_null() ? blank : before, after, SystemFields());
  if (changes.same()) return managed;
  FieldSet taken = changes.modified.Union(changes.added);
  const FieldSet lost = taken.Union(changes.removed);
  for (ManagedEntry& entry : managed) {
    if (HasSameFields(entry, writer)) entry.fields = entry.fields.Difference(lost);
  }
  if (!taken.empty()) {
    if (ManagedEntry* own = FindOwnEntry(managed, writer, /*applied=*/false)) {
      own->fields = own->fields.Union(taken);
      own->time = writer.time;
    } else {
      managed.push_back(MakeEntry(writer, /*applied=*/false, std::move(taken)));
    }
  }
  DropEmptyEntries(managed);
  CapUpdateManagers(managed);
  return managed;
}

StatusOr<ApplyResult> ApplyConfiguration(const Schema* schema, const Json& live, const Json& config,
                                         ManagedFields managed, const FieldWriter& writer,
                                         bool force) {
  RETURN_IF_ERROR(CheckApplied(schema, config));
  static const Json nothing = Json::object();
  const Json& before = live.is_null() ? nothing : live;
  FollowSchemaInGroup(schema, before, writer, managed);
  if (managed.empty() && !live.is_null()) {
    FieldWriter past = writer;
    past.manager = kBeforeFirstApply;
    managed = TrackWrite(schema, nullptr, live, {}, past);
  }
  const FieldSet last = ReplaceOwnFields(schema, config, writer, managed);
  ApplyResult result{.object = MergeApplied(schema, before, config)};
  if (!last.empty()) {
    FieldSet all = SystemFields();
    for (const ManagedEntry& entry : managed) {
      if (HasSameFields(entry, writer)) all = all.Union(entry.fields);
    }
    result.object = PruneFields(schema, result.object, last, all);
  }
  const Comparison changes = CompareFields(schema, before, result.object, SystemFields());
  const FieldSet taken = changes.modified.Union(changes.added);
  const FieldSet lost = taken.Union(changes.removed);
  const ManagedEntry* own = FindOwnEntry(managed, writer, /*applied=*/true);
  for (ManagedEntry& entry : managed) {
    if (&entry == own || !HasSameFields(entry, writer)) continue;
    FieldSet contested = entry.fields.Intersection(taken);
    if (!contested.empty())
      result.conflicts.push_back({DescribeManager(entry), std::move(contested)});
    entry.fields = entry.fields.Difference(lost);
  }
  if (writer.manager == kKubectl && !result.conflicts.empty()) {
    DropConflicts(result.conflicts, LastAppliedFields(schema, before, writer));
  }
  if (force) result.conflicts.clear();
  DropEmptyEntries(managed);
  if (writer.manager == kKubectl) RefreshLastApplied(config, result.object);
  result.managed = std::move(managed);
  return result;
}

}  // namespace berth::api
