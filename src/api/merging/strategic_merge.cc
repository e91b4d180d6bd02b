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

constexpr size_t kMaxShown = 1024;  // of a value in a message

Status Bad(std::string_view what) {
  return Error(StatusCode::kInvalidArgument, "strategic merge patch: {}", what);
}

// FAILED_PRECONDITION: the patch is well-formed, but its parts do not fit together.
Status Unfit(std::string_view what) {
  return Error(StatusCode::kFailedPrecondition, "strategic merge patch: {}", what);
}

// Appends `value` as Go's fmt prints it, because Kubernetes' messages show parts of a patch in this
// form. Stops when the text is long.
void AppendGoText(std::string& out, const Json& value) {
  if (value.is_null()) {
    out += "<nil>";
  } else if (value.is_string()) {
    out += value.get_ref<const std::string&>();
  } else if (value.is_structured()) {
    out += value.is_object() ? "map[" : "[";
    std::string_view gap;
    for (const auto& [key, member] : value.items()) {
      if (out.size() > kMaxShown) return;
      out += gap;
      gap = " ";
      if (value.is_object()) out += key + ":";
      AppendGoText(out, member);
    }
    out += ']';
  } else {
    out += base::json::Dump(value);
  }
}

std::string GoText(const Json& value) {
  std::string out;
  AppendGoText(out, value);
  if (out.size() > kMaxShown) out = out.substr(0, kMaxShown) + "...";
  return out;
}

// UNKNOWN, because Kubernetes does not classify the errors of directives: they are of code 500 and
// have no reason.
Status UnknownDirective(std::string_view directive, const Json& patch) {
  return Error(StatusCode::kUnknown, "unknown patch type: {} in map: {}", directive, GoText(patch));
}

std::string DirectiveOf(const Json& patch) { return base::json::String(patch, {kDirective}); }

// The items of `list` for lookups: a list of a patch may be as long as a request.
std::set<Json> SetOf(const Json& list) { return {list.begin(), list.end()}; }

// Returns a patch's value without directives and nulls (null means "absent"). It becomes the value
// of the document if the document has none to merge with. A part that has a directive of its own is
// left out, because there is nothing to which it applies.
Json WithoutDirectives(const Json& value) {
  if (value.is_object()) {
    Json out = Json::object();
    for (const auto& [key, member] : value.items()) {
      if (key == kDirective || key == kRetainKeys || key.starts_with(kSetOrder) ||
          key.starts_with(kDeletePrimitives) || member.is_null() || !DirectiveOf(member).empty()) {
        continue;
      }
      out[key] = WithoutDirectives(member);
    }
    return out;
  }
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) {
      if (DirectiveOf(item).empty()) out.push_back(WithoutDirectives(item));
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

// The merge key of an item; of a list of scalars, the item itself. Null if the item has none.
Json IdOf(const Json& item, std::string_view key) {
  if (key.empty()) return item;
  const Json* id = base::json::Find(item, {key});
  return id == nullptr ? Json() : *id;
}

// The first place of each item, by its merge key.
using Places = std::map<Json, size_t>;

Places PlacesOf(const Json& list, std::string_view key) {
  Places places;
  for (size_t i = 0; i < list.size(); ++i) places.emplace(IdOf(list[i], key), i);
  return places;
}

// Sorts the merged `list` as Kubernetes does. The items that `order` names get its order. Each
// other item, which the author of the patch did not know, stays before those that it preceded;
// `before` has the places before the merge. A new item therefore comes before all other items that
// are left.
void OrderItems(Json& list, const Json& order, std::string_view key, const Places& before) {
  const Places ranks = PlacesOf(order, key);
  std::multimap<size_t, Json*> named;  // by their rank in the order
  std::vector<Json*> others;
  for (Json& item : list) {
    const auto rank = ranks.find(IdOf(item, key));
    if (rank == ranks.end()) {
      others.push_back(&item);
    } else {
      named.emplace(rank->second, &item);
    }
  }
  Json out = Json::array();
  auto other = others.begin();
  for (const auto& [rank, item] : named) {
    const auto place = before.find(IdOf(*item, key));
    for (; place != before.end() && other != others.end(); ++other) {
      const auto own = before.find(IdOf(**other, key));
      if (own == before.end() || own->second >= place->second) break;
      out.push_back(std::move(**other));
    }
    out.push_back(std::move(*item));
  }
  for (; other != others.end(); ++other) out.push_back(std::move(**other));
  list = std::move(out);
}

// Removes the items that `patch` has with "$patch: delete", merges items with the same key, appends
// new ones, and sorts them by `order`; null: by the patch.
Status MergeList(Json& target, const Json& patch, const Json* order, const Schema& type,
                 std::string_view name) {
  const std::string_view key = type.patch_merge_key;
  std::set<Json> deleted;
  Json merged = Json::array();
  bool replaces = false;
  for (const Json& item : patch) {
    if (!item.is_object()) return Bad(fmt::format("an item of {} is not an object", name));
    const std::string directive = DirectiveOf(item);
    if (directive == "merge") {
      return Error(StatusCode::kUnknown, "merging lists cannot yet be specified in the patch");
    }
    if (!directive.empty() && directive != "delete" && directive != "replace") {
      return UnknownDirective(directive, item);
    }
    if (directive == "replace") {
      replaces = true;
      continue;
    }
    const Json* id = base::json::Find(item, {key});
    if (id == nullptr) {
      return Error(StatusCode::kUnknown, "map: {} does not contain declared merge key: {}",
                   GoText(item), key);
    }
    if (directive == "delete") {
      deleted.insert(*id);
    } else {
      merged.push_back(item);
    }
  }
  if (replaces) {
    target = WithoutDirectives(merged);
    return base::OkStatus();
  }
  const Places before = PlacesOf(target, key);
  // All items with such a key are deleted, as in Kubernetes: a port may be there for TCP and UDP.
  std::erase_if(target.get_ref<Json::array_t&>(), [&](const Json& item) {
    const Json* id = base::json::Find(item, {key});
    return id != nullptr && deleted.contains(*id);
  });
  Places places = PlacesOf(target, key);
  for (const Json& item : merged) {
    const auto [place, fresh] = places.emplace(IdOf(item, key), target.size());
    if (fresh) {
      target.push_back(WithoutDirectives(item));
    } else {
      RETURN_IF_ERROR(MergeObject(target[place->second], item, type.element));
    }
  }
  OrderItems(target, order == nullptr ? merged : *order, key, before);
  return base::OkStatus();
}

// The same for a list of scalars, of which each is there once.
void MergeScalars(Json& target, const Json& patch, const Json* order) {
  const Places before = PlacesOf(target, "");
  std::set<Json> known = SetOf(target);
  for (const Json& item : patch) {
    if (known.insert(item).second) target.push_back(item);
  }
  OrderItems(target, order == nullptr ? patch : *order, "", before);
}

// `order`: the order of a list, if the patch has one.
Status MergeMember(Json& target, const std::string& key, const Json& value, const Json* order,
                   const Schema* type) {
  if (value.is_null()) {
    target.erase(key);
    return base::OkStatus();
  }
  const auto present = target.find(key);
  if (value.is_object()) {
    if (present == target.end() || !present->is_object()) {
      if (DirectiveOf(value).empty()) {
        target[key] = WithoutDirectives(value);
      } else {
        target.erase(key);
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
    if (order != nullptr && value.is_array() && MergesList(type)) {
      OrderItems(target[key], *order, type->patch_merge_key, {});
    }
    return base::OkStatus();
  }
  if (!type->patch_merge_key.empty()) return MergeList(*present, value, order, *type, key);
  MergeScalars(*present, value, order);
  return base::OkStatus();
}

Status RetainKeys(Json& target, const Json& patch) {
  const auto keys = patch.find(kRetainKeys);
  if (keys == patch.end()) return base::OkStatus();
  if (!keys->is_array()) return Bad("$retainKeys is not a list");
  const std::set<Json> retained = SetOf(*keys);
  for (const auto& [key, value] : patch.items()) {
    if (!key.starts_with('$') && !value.is_null() && !retained.contains(key)) {
      return Unfit(fmt::format("$retainKeys does not hold \"{}\", which the patch sets", key));
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

// Sorts the lists for which the patch has an order and no items.
Status OrderLists(Json& target, const Json& patch, const Schema* schema) {
  for (const auto& [key, order] : patch.items()) {
    if (!key.starts_with(kSetOrder)) continue;
    if (!order.is_array()) return Bad(fmt::format("{} is not a list", key));
    const std::string field = key.substr(kSetOrder.size());
    const auto list = target.find(field);
    if (list == target.end() || !list->is_array() || patch.contains(field)) continue;
    const Schema* type = TypeOfMember(schema, field);
    if (!MergesList(type)) continue;
    OrderItems(*list, order, type->patch_merge_key, PlacesOf(*list, type->patch_merge_key));
  }
  return base::OkStatus();
}

// The order that the patch gives to its list `key`; null if it gives none.
const Json* OrderOf(const Json& patch, const std::string& key) {
  const auto order = patch.find(fmt::format("{}{}", kSetOrder, key));
  return order == patch.end() || !order->is_array() ? nullptr : &*order;
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
  if (!directive.empty()) return UnknownDirective(directive, patch);
  RETURN_IF_ERROR(RetainKeys(target, patch));
  RETURN_IF_ERROR(DeletePrimitives(target, patch));
  for (const auto& [key, value] : patch.items()) {
    if (key.starts_with('$')) continue;
    RETURN_IF_ERROR(
        MergeMember(target, key, value, OrderOf(patch, key), TypeOfMember(schema, key)));
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
