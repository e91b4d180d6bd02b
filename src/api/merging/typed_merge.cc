#include "api/merging/typed_merge.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/merging/typed_value.h"
#include "base/text.h"

namespace berth::api {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;

namespace {

// The path of one element, as error messages name it.
std::string PathOf(const std::string& element) {
  FieldSet set;
  set.Add(element);
  return set.Paths(1).front();
}

Status CheckItems(const Schema& list, const Json& items, const std::string& path);

Status CheckValue(const Schema* schema, const Json& value, const std::string& path) {
  switch (ShapeOf(schema, value)) {
    case ValueShape::kLeaf:
      return base::OkStatus();
    case ValueShape::kItems:
      return CheckItems(*schema, value, path);
    case ValueShape::kMembers:
      for (const auto& [name, item] : value.items()) {
        const MemberType type = MemberTypeOf(schema, name);
        if (!type.named && schema != nullptr && schema->type == FieldType::kObject &&
            !schema->preserve_unknown) {
          return Error(StatusCode::kInvalidArgument, "{}.{}: field not declared in schema", path,
                       name);
        }
        if (item.is_structured()) {
          RETURN_IF_ERROR(CheckValue(type.schema, item, base::ExtendFieldPath(path + ".", name)));
        }
      }
  }
  return base::OkStatus();
}

Status CheckItems(const Schema& list, const Json& items, const std::string& path) {
  std::set<std::string> seen;
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    if (list.list_type == ListType::kSet && (item.is_structured() || item.is_null())) {
      return Error(StatusCode::kInvalidArgument, "{}: element {}: a set holds plain values only",
                   path, i);
    }
    if (const std::string key = FindMissingKey(list, item); !key.empty()) {
      return Error(StatusCode::kInvalidArgument,
                   "{}: element {}: associative list with keys has an element that omits key "
                   "field {} (and doesn't have default value)",
                   path, i, base::json::Dump(key));
    }
    const std::string element = ItemElement(list, item);
    if (!seen.insert(element).second) {
      return Error(StatusCode::kInvalidArgument, "{}: duplicate entries for key {}", path,
                   PathOf(element));
    }
    RETURN_IF_ERROR(CheckValue(list.element, item, base::ExtendFieldPath(path, PathOf(element))));
  }
  return base::OkStatus();
}

Json MergeItems(const Schema& list, const Json& live, const Json& config) {
  struct Item {
    std::string element;
    const Json* value;
  };
  std::vector<Item> left;
  std::map<std::string, const Json*> live_items;  // null: there are several
  for (const Json& item : live) {
    left.push_back({ItemElement(list, item), &item});
    const auto [it, fresh] = live_items.emplace(left.back().element, &item);
    if (!fresh) it->second = nullptr;
  }
  std::vector<Item> right;
  std::set<std::string> applied;
  std::vector<std::string> shared;  // elements that both have, in the configuration's order
  for (const Json& item : config) {
    right.push_back({ItemElement(list, item), &item});
    applied.insert(right.back().element);
    if (live_items.contains(right.back().element)) shared.push_back(right.back().element);
  }
  // Items that only the live list has keep their places between the items that both have.
  Json out = Json::array();
  auto at = left.begin();
  auto next_shared = shared.begin();
  const auto keep_live_until_shared = [&] {
    while (at != left.end() && (next_shared == shared.end() || at->element != *next_shared)) {
      if (!applied.contains(at->element)) out.push_back(*at->value);
      ++at;
    }
  };
  for (const Item& item : right) {
    keep_live_until_shared();
    const auto live_item = live_items.find(item.element);
    const bool mergeable = live_item != live_items.end() && live_item->second != nullptr;
    out.push_back(mergeable ? MergeApplied(list.element, *live_item->second, *item.value)
                            : *item.value);
    if (next_shared != shared.end() && *next_shared == item.element) ++next_shared;
    while (at != left.end() && at->element == item.element) ++at;
  }
  keep_live_until_shared();
  return out;
}

}  // namespace

Status CheckApplied(const Schema* schema, const Json& config) {
  return CheckValue(schema, config, "");
}

Json MergeApplied(const Schema* schema, const Json& live, const Json& config) {
  const ValueShape shape = ShapeOf(schema, live);
  // An empty configuration has no fields, so it does not change a value with members.
  if (shape != ValueShape::kLeaf && !live.empty() && config.empty()) return live;
  if (shape == ValueShape::kLeaf || shape != ShapeOf(schema, config)) return config;
  if (shape == ValueShape::kItems) return MergeItems(*schema, live, config);
  Json out = live;
  for (const auto& [name, value] : config.items()) {
    const auto it = out.find(name);
    if (it == out.end()) {
      out[name] = value;
    } else {
      *it = MergeApplied(MemberTypeOf(schema, name).schema, *it, value);
    }
  }
  return out;
}

Json RemoveFields(const Schema* schema, const Json& object, const FieldSet& fields) {
  const ValueShape shape = ShapeOf(schema, object);
  if (shape == ValueShape::kLeaf || fields.empty()) return object;
  Json out;
  if (shape == ValueShape::kItems) {
    for (const Json& item : object) {
      const FieldSet::Node* node = fields.Find(ItemElement(*schema, item));
      if (node != nullptr && node->member) continue;
      out.push_back(node == nullptr ? item : RemoveFields(schema->element, item, node->children));
    }
    return out;
  }
  for (const auto& [name, value] : object.items()) {
    const FieldSet::Node* node = fields.Find(FieldElement(name));
    if (node != nullptr && node->member) continue;
    out[name] = node == nullptr
                    ? value
                    : RemoveFields(MemberTypeOf(schema, name).schema, value, node->children);
  }
  return out;
}

}  // namespace berth::api
