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

// Fields that nobody manages: the server sets them, or they identify the object.
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

std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

// Versions of one group differ only in their name here (custom resources are not converted), but
// the same object in another group (events) has other fields.
bool SameFields(const ManagedEntry& entry, const FieldWriter& writer) {
  return GroupOf(entry.api_version) == GroupOf(writer.api_version);
}

// A writer's own entry; one serves all versions that it applies.
ManagedEntry* FindOwn(ManagedFields& managed, const FieldWriter& writer, bool applied) {
  for (ManagedEntry& entry : managed) {
    if (entry.manager == writer.manager && entry.applied == applied &&
        entry.subresource == writer.subresource &&
        (applied || entry.api_version == writer.api_version)) {
      return &entry;
    }
  }
  return nullptr;
}

ManagedEntry NewEntry(const FieldWriter& writer, bool applied, FieldSet fields) {
  return {.manager = writer.manager,
          .applied = applied,
          .api_version = writer.api_version,
          .subresource = writer.subresource,
          .time = writer.time,
          .fields = std::move(fields)};
}

void FollowSchemaAll(const Schema* schema, const Json& object, const FieldWriter& writer,
                     ManagedFields& managed) {
  std::vector<FieldSet*> sets;
  for (ManagedEntry& entry : managed) {
    if (SameFields(entry, writer)) sets.push_back(&entry.fields);
  }
  FollowSchema(schema, object, sets);
}

void DropEmpty(ManagedFields& managed) {
  std::erase_if(managed, [](const ManagedEntry& entry) { return entry.fields.empty(); });
}

// The object as it counts before the first write: it has its metadata, spec and status, and the
// lists that must exist. `after` shows which of them matter.
Json BlankOf(const Schema* schema, const Json& after, bool root) {
  Json out = after.is_array() ? Json::array() : Json::object();
  if (schema == nullptr || !after.is_object()) return out;
  for (const auto& [name, value] : after.items()) {
    if (!value.is_structured()) continue;
    const Field* field = schema->type == FieldType::kObject ? schema->Find(name) : nullptr;
    const bool always = root && (name == "metadata" || name == "spec" || name == "status");
    if (field == nullptr || (!field->required && !always)) continue;
    if (ShapeOf(field->type, value) == ValueShape::kLeaf) continue;
    out[name] = BlankOf(field->type, value, false);
  }
  return out;
}

// The entry that collects old changes of `version`: the existing one, or `oldest`, which becomes
// it.
size_t AncientChanges(ManagedFields& managed, const std::string& version, size_t oldest) {
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

// Merges the oldest of too many writers, version by version, into one entry for old changes.
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
    const size_t into = AncientChanges(managed, entry.api_version, it->second);
    if (into == i) continue;
    managed[into].fields = managed[into].fields.Union(entry.fields);
    managed[into].time = entry.time;  // the later one
    entry.fields = {};
    --count;
  }
  DropEmpty(managed);
}

// The form in which conflicts name a manager.
std::string PrintManager(const ManagedEntry& entry) {
  std::string out = base::json::Dump(entry.manager);
  if (!entry.subresource.empty()) {
    out += fmt::format(" with subresource {}", base::json::Dump(entry.subresource));
  }
  if (!entry.applied) out += fmt::format(" using {}", entry.api_version);
  return out;
}

// `merged` without the fields of `last` that nobody in `managed` manages.
Json Prune(const Schema* schema, const Json& merged, const FieldSet& last,
           const FieldSet& managed) {
  const auto fields = [schema](const Json& object) {
    return WithNamedParents(schema, FieldsOf(schema, object));
  };
  const FieldSet last_named = WithNamedParents(schema, last);
  const FieldSet all = fields(merged);
  const FieldSet kept =
      fields(RemoveFields(schema, merged, last_named)).Union(WithNamedParents(schema, managed));
  // Fields that were removed with a parent, but were not in `last`, come back in the third step.
  const Json without = RemoveFields(schema, merged, all.Difference(kept));
  return RemoveFields(schema, merged, all.Difference(fields(without)).Intersection(last_named));
}

// Makes the writer the manager of exactly what `config` states. Returns the fields that it stated
// before.
FieldSet TakeOver(const Schema* schema, const Json& config, const FieldWriter& writer,
                  ManagedFields& managed) {
  FieldSet stated = FieldsOf(schema, config, SystemFields());
  ManagedEntry* own = FindOwn(managed, writer, /*applied=*/true);
  if (own == nullptr) {
    managed.push_back(NewEntry(writer, /*applied=*/true, std::move(stated)));
    return {};
  }
  own->api_version = writer.api_version;
  own->time = writer.time;
  return std::exchange(own->fields, std::move(stated));
}

// The fields that the last client-side apply stated and that still have its values.
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

// Removes conflicts over fields that `kubectl apply` itself has set.
void Forgive(std::vector<ApplyConflict>& conflicts, const FieldSet& allowed) {
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
  if (!json.is_object()) return bad("an entry is no object");
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
  if (!list.is_array()) return Error(StatusCode::kInvalidArgument, "managedFields is no list");
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

bool SameButTimes(const Json& a, const Json& b) {
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
  if (!before.is_null()) FollowSchemaAll(schema, before, writer, managed);
  const Json blank = before.is_null() ? BlankOf(schema, after, true) : Json();
  const Comparison changes =
      CompareFields(schema, before.is_null() ? blank : before, after, SystemFields());
  if (changes.same()) return managed;
  FieldSet taken = changes.modified.Union(changes.added);
  const FieldSet lost = taken.Union(changes.removed);
  for (ManagedEntry& entry : managed) {
    if (SameFields(entry, writer)) entry.fields = entry.fields.Difference(lost);
  }
  if (!taken.empty()) {
    if (ManagedEntry* own = FindOwn(managed, writer, /*applied=*/false)) {
      own->fields = own->fields.Union(taken);
      own->time = writer.time;
    } else {
      managed.push_back(NewEntry(writer, /*applied=*/false, std::move(taken)));
    }
  }
  DropEmpty(managed);
  CapUpdateManagers(managed);
  return managed;
}

StatusOr<ApplyResult> ApplyConfiguration(const Schema* schema, const Json& live, const Json& config,
                                         ManagedFields managed, const FieldWriter& writer,
                                         bool force) {
  RETURN_IF_ERROR(CheckApplied(schema, config));
  static const Json nothing = Json::object();
  const Json& before = live.is_null() ? nothing : live;
  FollowSchemaAll(schema, before, writer, managed);
  if (managed.empty() && !live.is_null()) {
    FieldWriter past = writer;
    past.manager = kBeforeFirstApply;
    managed = TrackWrite(schema, nullptr, live, {}, past);
  }
  const FieldSet last = TakeOver(schema, config, writer, managed);
  ApplyResult result{.object = MergeApplied(schema, before, config)};
  if (!last.empty()) {
    FieldSet all = SystemFields();
    for (const ManagedEntry& entry : managed) {
      if (SameFields(entry, writer)) all = all.Union(entry.fields);
    }
    result.object = Prune(schema, result.object, last, all);
  }
  const Comparison changes = CompareFields(schema, before, result.object, SystemFields());
  const FieldSet taken = changes.modified.Union(changes.added);
  const FieldSet lost = taken.Union(changes.removed);
  const ManagedEntry* own = FindOwn(managed, writer, /*applied=*/true);
  for (ManagedEntry& entry : managed) {
    if (&entry == own || !SameFields(entry, writer)) continue;
    FieldSet contested = entry.fields.Intersection(taken);
    if (!contested.empty()) result.conflicts.push_back({PrintManager(entry), std::move(contested)});
    entry.fields = entry.fields.Difference(lost);
  }
  if (writer.manager == kKubectl && !result.conflicts.empty()) {
    Forgive(result.conflicts, LastAppliedFields(schema, before, writer));
  }
  if (force) result.conflicts.clear();
  DropEmpty(managed);
  if (writer.manager == kKubectl) RefreshLastApplied(config, result.object);
  result.managed = std::move(managed);
  return result;
}

}  // namespace berth::api
