#include "api/merging/typed_fields.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/merging/typed_value.h"

namespace berth::api {

using base::Json;

namespace {

// Finds the node of the member `name` in `ignored`; nullptr if there is none.
const FieldSet::Node* FindIgnored(const FieldSet* ignored, std::string_view name) {
  return ignored == nullptr || ignored->empty() ? nullptr : ignored->Find(FieldElement(name));
}

// Whether the field is ignored with all fields below it.
bool IsIgnoredWhole(const FieldSet::Node* node) {
  return node != nullptr && node->member && node->children.empty();
}

const FieldSet* ChildrenOf(const FieldSet::Node* node) {
  return node == nullptr ? nullptr : &node->children;
}

// Collects the fields below `value`.
FieldSet CollectFields(const Schema* schema, const Json& value, const FieldSet* ignored);

FieldSet CollectItems(const Schema& list, const Json& value) {
  std::vector<std::pair<std::string, size_t>> items;
  items.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) items.emplace_back(ItemElement(list, value[i]), i);
  std::sort(items.begin(), items.end());
  FieldSet out;
  for (size_t i = 0; i < items.size();) {
    size_t end = i + 1;
    while (end < items.size() && items[end].first == items[i].first) ++end;
    // Items with the same key are one field, because a path cannot tell them apart.
    FieldSet below =
        end - i > 1 ? FieldSet() : CollectFields(list.element, value[items[i].second], nullptr);
    out.Add(std::move(items[i].first), true, std::move(below));
    i = end;
  }
  return out;
}

FieldSet CollectFields(const Schema* schema, const Json& value, const FieldSet* ignored) {
  const ValueShape shape = ShapeOf(schema, value);
  if (shape == ValueShape::kLeaf) return {};
  if (shape == ValueShape::kItems) return CollectItems(*schema, value);
  FieldSet out;
  for (const auto& [name, item] : value.items()) {
    const FieldSet::Node* skip = FindIgnored(ignored, name);
    if (IsIgnoredWhole(skip)) continue;
    const MemberType type = MemberTypeOf(schema, name);
    const ValueShape below = ShapeOf(type.schema, item);
    const bool empty_object = below == ValueShape::kMembers && item.empty();
    const bool member = below == ValueShape::kLeaf || empty_object || !type.named;
    out.Add(FieldElement(name), member && (skip == nullptr || !skip->member),
            CollectFields(type.schema, item, ChildrenOf(skip)));
  }
  return out;
}

enum class Change { kNone, kAdded, kModified, kRemoved };

// The change of a value itself, and the changes of the fields below it.
struct Difference {
  Change self = Change::kNone;
  Comparison below;
};

Difference CompareValues(const Schema* schema, const Json* before, const Json* after,
                         const FieldSet* ignored);

// Adds the changes at an element to the comparison of its parent. `make_element` is called only if
// there are changes.
template <typename MakeElement>
void AddChange(Comparison& out, Difference change, const MakeElement& make_element) {
  if (change.self == Change::kNone && change.below.same()) return;
  const std::string element = make_element();
  out.added.Add(element, change.self == Change::kAdded, std::move(change.below.added));
  out.modified.Add(element, change.self == Change::kModified, std::move(change.below.modified));
  out.removed.Add(element, change.self == Change::kRemoved, std::move(change.below.removed));
}

void CompareMembers(const Schema* schema, const Json& before, const Json& after,
                    const FieldSet* ignored, Comparison& out) {
  auto a = before.begin();
  auto b = after.begin();
  while (a != before.end() || b != after.end()) {
    const int order = a == before.end() ? 1 : b == after.end() ? -1 : a.key().compare(b.key());
    const std::string& name = order <= 0 ? a.key() : b.key();
    const FieldSet::Node* skip = FindIgnored(ignored, name);
    if (!IsIgnoredWhole(skip)) {
      Difference change =
          CompareValues(MemberTypeOf(schema, name).schema, order <= 0 ? &*a : nullptr,
                        order >= 0 ? &*b : nullptr, ChildrenOf(skip));
      if (skip != nullptr && skip->member) change.self = Change::kNone;
      AddChange(out, std::move(change), [&name] { return FieldElement(name); });
    }
    if (order <= 0) ++a;
    if (order >= 0) ++b;
  }
}

// The items of a list, sorted by element, and items with the same element in the order of the list.
using Items = std::vector<std::pair<std::string, const Json*>>;

Items ItemsOf(const Schema& list, const Json& value) {
  Items out;
  out.reserve(value.size());
  for (const Json& item : value) out.emplace_back(ItemElement(list, item), &item);
  std::sort(out.begin(), out.end());  // pointers into the list are in its order
  return out;
}

using ItemRange = std::span<const std::pair<std::string, const Json*>>;

// Removes the items of `element` from the front of `items`, and returns them.
ItemRange TakeItems(ItemRange& items, const std::string& element) {
  size_t count = 0;
  while (count < items.size() && items[count].first == element) ++count;
  const ItemRange taken = items.first(count);
  items = items.subspan(count);
  return taken;
}

// Compares the items with one key. Several items with one key count as one value, which is added,
// changed or removed as a whole.
Difference CompareSameKey(const Schema* element, ItemRange before, ItemRange after) {
  const auto only = [](ItemRange items) { return items.size() == 1 ? items[0].second : nullptr; };
  if (before.size() <= 1 && after.size() <= 1) {
    return CompareValues(element, only(before), only(after), nullptr);
  }
  if (before.size() > 1 && after.size() > 1) {
    const bool same =
        std::equal(before.begin(), before.end(), after.begin(), after.end(),
                   [](const auto& a, const auto& b) { return *a.second == *b.second; });
    return {.self = same ? Change::kNone : Change::kModified, .below = {}};
  }
  // If one of the sides is a single item, its own fields are added or removed.
  Difference out = before.size() > 1 && after.empty() ? Difference{}
                   : after.size() > 1 && before.empty()
                       ? Difference{}
                       : CompareValues(element, only(before), only(after), nullptr);
  out.self = before.size() > 1 && after.empty()   ? Change::kRemoved
             : after.size() > 1 && before.empty() ? Change::kAdded
                                                  : Change::kModified;
  return out;
}

void CompareItems(const Schema& list, const Json& before, const Json& after, Comparison& out) {
  const Items before_items = ItemsOf(list, before);
  const Items after_items = ItemsOf(list, after);
  ItemRange a = before_items;
  ItemRange b = after_items;
  while (!a.empty() || !b.empty()) {
    const std::string& element =
        b.empty() || (!a.empty() && a[0].first < b[0].first) ? a[0].first : b[0].first;
    const ItemRange left = TakeItems(a, element);
    const ItemRange right = TakeItems(b, element);
    AddChange(out, CompareSameKey(list.element, left, right), [&element] { return element; });
  }
}

// Compares the fields below two values of the same shape.
Comparison CompareBelow(const Schema* schema, ValueShape shape, const Json& before,
                        const Json& after, const FieldSet* ignored) {
  Comparison out;
  if (shape == ValueShape::kMembers) CompareMembers(schema, before, after, ignored, out);
  if (shape == ValueShape::kItems) CompareItems(*schema, before, after, out);
  return out;
}

Difference CompareValues(const Schema* schema, const Json* before, const Json* after,
                         const FieldSet* ignored) {
  static const Json no_members = Json::object();
  static const Json no_items = Json::array();
  const auto nothing = [](ValueShape shape) -> const Json& {
    return shape == ValueShape::kItems ? no_items : no_members;
  };
  if (before == nullptr || after == nullptr) {
    const Json& value = before == nullptr ? *after : *before;
    const ValueShape shape = ShapeOf(schema, value);
    if (before == nullptr) {
      return {Change::kAdded, CompareBelow(schema, shape, nothing(shape), value, ignored)};
    }
    return {Change::kRemoved, CompareBelow(schema, shape, value, nothing(shape), ignored)};
  }
  const ValueShape was = ShapeOf(schema, *before);
  const ValueShape is = ShapeOf(schema, *after);
  if (was == is) {
    if (was == ValueShape::kLeaf) {
      return {*before == *after ? Change::kNone : Change::kModified, {}};
    }
    return {Change::kNone, CompareBelow(schema, was, *before, *after, ignored)};
  }
  // A leaf became a value with members or items, or the other way round.
  Difference out{Change::kModified, {}};
  out.below.removed = CompareBelow(schema, was, *before, nothing(was), ignored).removed;
  out.below.added = CompareBelow(schema, is, nothing(is), *after, ignored).added;
  return out;
}

const Schema* TypeBelow(const Schema* schema, const std::string& element, bool* named) {
  *named = false;
  if (schema == nullptr) return nullptr;
  if (schema->type == FieldType::kList) return schema->element;
  const MemberType type = MemberTypeOf(schema, std::string_view(element).substr(2));
  *named = type.named;
  return type.schema;
}

// Whether a type is an object, map or list.
bool HasParts(const Schema* schema) {
  return schema != nullptr && (schema->type == FieldType::kObject ||
                               schema->type == FieldType::kMap || schema->type == FieldType::kList);
}
// Whether a value of such a type is replaced as a whole.
bool IsAtomic(const Schema& schema) {
  return schema.type == FieldType::kList ? schema.list_type == ListType::kAtomic : schema.atomic;
}

using FieldPath = std::vector<std::string>;

// Finds the part of `set` below `path`; nullptr if there is none.
const FieldSet* FindBelow(const FieldSet& set, const FieldPath& path) {
  const FieldSet* at = &set;
  for (const std::string& element : path) {
    const FieldSet::Node* node = at->Find(element);
    if (node == nullptr) return nullptr;
    at = &node->children;
  }
  return at;
}

class SchemaFollower {
 public:
  SchemaFollower(const Schema* schema, const Json& object, std::span<FieldSet* const> sets)
      : schema_(schema), object_(object), sets_(sets) {}

  void ConvertSets() {
    std::vector<FieldSet> followed;
    for (const FieldSet* set : sets_) followed.push_back(Convert(schema_, *set));
    for (size_t i = 0; i < sets_.size(); ++i) *sets_[i] = std::move(followed[i]);
  }

 private:
  FieldSet Convert(const Schema* schema, const FieldSet& set) {
    FieldSet out;
    for (const FieldSet::Node& node : set.nodes()) {
      bool named = false;
      const Schema* type = TypeBelow(schema, node.element, &named);
      if (!HasParts(type)) {
        out.Add(node.element, node.member, node.children);
      } else if (IsAtomic(*type)) {
        out.Add(node.element);
      } else {
        path_.push_back(node.element);
        const bool whole = node.member && node.children.empty();
        out.Add(node.element, node.member, whole ? PartsOfWhole() : Convert(type, node.children));
        path_.pop_back();
      }
    }
    return out;
  }

  // The fields below path_, for a manager that has the value there as one field. If another manager
  // has fields below it already, the value was granular before, and this manager had an empty
  // value.
  FieldSet PartsOfWhole() {
    for (const FieldSet* set : sets_) {
      const FieldSet* below = FindBelow(*set, path_);
      if (below != nullptr && !below->empty()) return {};
    }
    if (!live_) live_ = CollectFields(schema_, object_, nullptr);
    const FieldSet* below = FindBelow(*live_, path_);
    return below == nullptr ? FieldSet() : *below;
  }

  const Schema* schema_;
  const Json& object_;
  const std::span<FieldSet* const> sets_;
  FieldPath path_;
  std::optional<FieldSet> live_;  // the fields of object_; computed when they are first needed
};

}  // namespace

FieldSet FieldsOf(const Schema* schema, const Json& object, const FieldSet& ignored) {
  return CollectFields(schema, object, &ignored);
}

Comparison CompareFields(const Schema* schema, const Json& before, const Json& after,
                         const FieldSet& ignored) {
  return CompareValues(schema, &before, &after, &ignored).below;
}

FieldSet WithNamedParents(const Schema* schema, const FieldSet& set) {
  FieldSet out;
  for (const FieldSet::Node& node : set.nodes()) {
    bool named = false;
    const Schema* type = TypeBelow(schema, node.element, &named);
    out.Add(node.element, node.member || (named && !node.children.empty()),
            WithNamedParents(type, node.children));
  }
  return out;
}

void FollowSchema(const Schema* schema, const Json& object, std::span<FieldSet* const> sets) {
  if (schema != nullptr) SchemaFollower(schema, object, sets).ConvertSets();
}

}  // namespace berth::api
