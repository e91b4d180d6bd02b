// Strategic merge patches. The schema of the kind has the lists that are merged, and their keys.
// The directives are those of Kubernetes' own client and command line.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/codecs/protobuf.h"
#include "api/merging/patch.h"
#include "api/schema/schema.h"
#include "base/log.h"

namespace berth::api {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr std::string_view kDirective = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kSetOrder = "$setElementOrder/";
constexpr std::string_view kDeletePrimitives = "$deleteFromPrimitiveList/";

Status Bad(std::string_view what) {
  return Error(StatusCode::kInvalidArgument, "strategic merge patch: {}", what);
}

std::string DirectiveOf(const Json& patch) { return base::json::String(patch, {kDirective}); }

// The items of `list` for lookups: a list of a patch may be as long as a request.
std::set<Json> SetOf(const Json& list) { return {list.begin(), list.end()}; }

// Returns a patch's value without directives and nulls (null means "absent"). It becomes the value
// of the document if the document has none to merge with.
Json WithoutDirectives(const Json& value) {
  if (value.is_object()) {
    Json out = Json::object();
    for (const auto& [key, member] : value.items()) {
      if (key == kDirective || key == kRetainKeys || key.starts_with(kSetOrder) ||
          key.starts_with(kDeletePrimitives) || member.is_null()) {
        continue;
      }
      out[key] = WithoutDirectives(member);
    }
    return out;
  }
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) {
      const std::string directive = DirectiveOf(item);
      // The document has nothing to delete, and an item with only a directive adds nothing.
      if (directive == "delete" || (!directive.empty() && item.size() == 1)) continue;
      out.push_back(WithoutDirectives(item));
    }
    return out;
  }
  return value;
}

// The type of a member; nullptr if it is unknown.
const Schema* TypeOfMember(const Schema* schema, std::string_view name) {
  if (schema == nullptr) return nullptr;
  if (schema->type == FieldType::kMap) return schema->element;
  const Field* field = schema->Find(name);
  return field == nullptr ? nullptr : field->type;
}

bool MergesList(const Schema* type) {
  return type != nullptr && type->type == FieldType::kList && type->patch_merge;
}

// Merges `patch` into `target`, an object of the type `schema` (nullptr: not known).
Status MergeObject(Json& target, const Json& patch, const Schema* schema);

// Removes the items that `patch` has with "$patch: delete", merges items with the same key, and
// appends new ones.
Status MergeList(Json& target, const Json& patch, const Schema& type, std::string_view name) {
  const std::string_view key = type.patch_merge_key;
  for (const Json& item : patch) {
    if (!item.is_object()) return Bad(fmt::format("an item of {} is not an object", name));
    if (DirectiveOf(item) == "replace" && item.size() == 1) {
      target = WithoutDirectives(patch);
      return base::OkStatus();
    }
  }
  std::set<Json> deleted;
  std::vector<std::pair<Json, const Json*>> merged;  // the others, with their keys
  for (const Json& item : patch) {
    const std::string directive = DirectiveOf(item);
    if (directive == "merge" && item.size() == 1) continue;
    const Json* id = base::json::Find(item, {key});
    if (id == nullptr) {
      return Bad(fmt::format("an item of {} does not contain the merge key \"{}\"", name, key));
    }
    if (directive == "delete") {
      deleted.insert(*id);
    } else {
      merged.emplace_back(*id, &item);
    }
  }
  // All items with such a key are deleted, as in Kubernetes: a port may be there for TCP and UDP.
  std::erase_if(target.get_ref<Json::array_t&>(), [&](const Json& item) {
    const Json* id = base::json::Find(item, {key});
    return id != nullptr && deleted.contains(*id);
  });
  std::map<Json, size_t> places;
  for (size_t i = 0; i < target.size(); ++i) {
    if (const Json* id = base::json::Find(target[i], {key}); id != nullptr) places.emplace(*id, i);
  }
  for (const auto& [id, item] : merged) {
    const auto [place, fresh] = places.emplace(id, target.size());
    if (fresh) {
      target.push_back(WithoutDirectives(*item));
    } else {
      RETURN_IF_ERROR(MergeObject(target[place->second], *item, type.element));
    }
  }
  return base::OkStatus();
}

Status MergeMember(Json& target, const std::string& key, const Json& value, const Schema* type) {
  if (value.is_null()) {
    target.erase(key);
    return base::OkStatus();
  }
  const auto present = target.find(key);
  if (value.is_object()) {
    if (present == target.end() || !present->is_object()) {
      if (DirectiveOf(value) == "delete") {
        target.erase(key);
      } else {
        target[key] = WithoutDirectives(value);
      }
      return base::OkStatus();
    }
    if (DirectiveOf(value) == "delete") {
      target.erase(key);
      return base::OkStatus();
    }
    return MergeObject(*present, value, type);
  }
  if (!value.is_array() || !MergesList(type) || present == target.end() || !present->is_array()) {
    target[key] = WithoutDirectives(value);
    return base::OkStatus();
  }
  if (type->patch_merge_key.empty()) {
    std::set<Json> known = SetOf(*present);
    for (const Json& item : value) {
      if (known.insert(item).second) present->push_back(item);
    }
    return base::OkStatus();
  }
  return MergeList(*present, value, *type, key);
}

Status RetainKeys(Json& target, const Json& patch) {
  const auto keys = patch.find(kRetainKeys);
  if (keys == patch.end()) return base::OkStatus();
  if (!keys->is_array()) return Bad("$retainKeys is not a list");
  const std::set<Json> retained = SetOf(*keys);
  for (const auto& [key, value] : patch.items()) {
    if (!key.starts_with('$') && !value.is_null() && !retained.contains(key)) {
      return Bad(fmt::format("$retainKeys does not hold \"{}\", which the patch sets", key));
    }
  }
  for (auto it = target.begin(); it != target.end();) {
    it = retained.contains(it.key()) ? std::next(it) : target.erase(it);
  }
  return base::OkStatus();
}

Status DeletePrimitives(Json& target, const Json& patch) {
  for (const auto& [key, values] : patch.items()) {
    if (!key.starts_with(kDeletePrimitives)) continue;
    if (!values.is_array()) return Bad(fmt::format("{} is not a list", key));
    const auto list = target.find(key.substr(kDeletePrimitives.size()));
    if (list == target.end() || !list->is_array()) continue;
    const std::set<Json> removed = SetOf(values);
    std::erase_if(list->get_ref<Json::array_t&>(),
                  [&](const Json& item) { return removed.contains(item); });
  }
  return base::OkStatus();
}

// Sorts the items that `order` names into its order. Each other item, which the author of the patch
// did not know, stays before the named item that it preceded.
void OrderItems(Json& list, const Json& order, std::string_view key) {
  const auto id_of = [&](const Json& item) {
    if (key.empty()) return item;
    const Json* id = base::json::Find(item, {key});
    return id == nullptr ? Json() : *id;
  };
  std::map<Json, size_t> places;
  for (size_t i = 0; i < list.size(); ++i) places.emplace(id_of(list[i]), i);
  std::vector<size_t> named;  // places in the present list, in the new order
  std::vector<bool> is_named(list.size());
  for (const Json& entry : order) {
    const auto place = places.find(id_of(entry));
    if (place == places.end() || is_named[place->second]) continue;
    is_named[place->second] = true;
    named.push_back(place->second);
  }
  Json out = Json::array();
  size_t next = 0;  // the first item that may be an unnamed one and is not appended yet
  const auto append_others_before = [&](size_t end) {
    for (; next < end; ++next) {
      if (!is_named[next]) out.push_back(list[next]);
    }
  };
  for (const size_t place : named) {
    append_others_before(place);
    out.push_back(list[place]);
  }
  append_others_before(list.size());
  list = std::move(out);
}

Status OrderLists(Json& target, const Json& patch, const Schema* schema) {
  for (const auto& [key, order] : patch.items()) {
    if (!key.starts_with(kSetOrder)) continue;
    if (!order.is_array()) return Bad(fmt::format("{} is not a list", key));
    const std::string field = key.substr(kSetOrder.size());
    const auto list = target.find(field);
    if (list == target.end() || !list->is_array()) continue;
    const Schema* type = TypeOfMember(schema, field);
    if (!MergesList(type)) continue;  // it was replaced as a whole, so it has the patch's order
    OrderItems(*list, order, type->patch_merge_key);
  }
  return base::OkStatus();
}

Status MergeObject(Json& target, const Json& patch, const Schema* schema) {
  const std::string directive = DirectiveOf(patch);
  if (directive == "replace") {
    target = WithoutDirectives(patch);
    return base::OkStatus();
  }
  if (directive == "delete") {
    target = Json::object();
    return base::OkStatus();
  }
  if (!directive.empty() && directive != "merge") {
    return Bad(fmt::format("unknown $patch directive {}", base::Quote(directive)));
  }
  RETURN_IF_ERROR(RetainKeys(target, patch));
  RETURN_IF_ERROR(DeletePrimitives(target, patch));
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with('$')) continue;
    RETURN_IF_ERROR(MergeMember(target, key, value, TypeOfMember(schema, key)));
  }
  return OrderLists(target, patch, schema);
}

}  // namespace

bool SupportsStrategicMerge(const KindInfo& kind) { return HasProtobuf(SchemaOf(kind)); }

StatusOr<Json> ApplyStrategicMergePatch(const KindInfo& kind, Json document, const Json& patch) {
  if (!patch.is_object()) return Bad("the patch must be an object");
  if (!document.is_object()) return Bad("the document is not an object");
  if (!SupportsStrategicMerge(kind)) {
    return Error(StatusCode::kInvalidArgument, "{} does not support strategic merge patches",
                 kind.group_resource());
  }
  RETURN_IF_ERROR(MergeObject(document, patch, SchemaOf(kind)));
  return document;
}

}  // namespace berth::api
