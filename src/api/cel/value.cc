#include "api/cel/value.h"

#include <charconv>
#include <cmath>

#include "api/time.h"
#include "base/log.h"
#include "base/utf8.h"

namespace berth::api::cel {

namespace {

const Schema* MemberSchema(const Schema* schema, std::string_view name) {
  if (schema == nullptr) return nullptr;
  if (schema->type == FieldType::kMap) return schema->element;
  const Field* field = schema->Find(name);
  return field != nullptr ? field->type : nullptr;
}

// Compares keys of map literals. They are strings, ints or booleans, so this costs almost nothing
// and needs no bound.
bool IsSameKey(const Value& a, const Value& b) {
  Budget budget(INT64_MAX / 2);
  return a.Equals(b, budget);
}

Value FromString(const std::string& text, const Schema* schema) {
  if (schema != nullptr && schema->type == FieldType::kString) {
    if (schema->format == "date-time") {
      if (const auto time = ParseTime(text); time.ok()) return *time;
    } else if (schema->format == "duration") {
      if (const auto duration = ParseDuration(text); duration.ok()) return *duration;
    }
  }
  return Value::ReferToText(text);
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kAny:
      return "dyn";
    case Kind::kNull:
      return "null_type";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kDouble:
      return "double";
    case Kind::kString:
      return "string";
    case Kind::kList:
      return "list";
    case Kind::kMap:
      return "map";
    case Kind::kTimestamp:
      return "google.protobuf.Timestamp";
    case Kind::kDuration:
      return "google.protobuf.Duration";
    case Kind::kQuantity:
      return "kubernetes.Quantity";
    case Kind::kOptional:
      return "optional_type";
  }
  return "";
}

Value Value::Some(Value value) {
  return Value(Rep(Optional{std::make_shared<const Value>(std::move(value))}));
}

Value Value::FromJson(const Json& json, const Schema* schema) {
  const bool number = schema != nullptr && schema->type == FieldType::kNumber;
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      if (number) return json.get<double>();
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      if (number || json.get<uint64_t>() > INT64_MAX) return json.get<double>();
      return json.get<int64_t>();
    case Json::value_t::number_float: {
      const double value = json.get<double>();
      const bool integer = schema != nullptr && schema->type == FieldType::kInteger;
      if (integer && std::abs(value) < 0x1p62) return static_cast<int64_t>(value);
      return value;
    }
    case Json::value_t::string:
      return FromString(json.get_ref<const std::string&>(), schema);
    case Json::value_t::array:
    case Json::value_t::object:
      return Value(Rep(Reference{&json, schema}));
    default:
      return {};
  }
}

Kind Value::kind() const {
  static constexpr Kind kKinds[] = {Kind::kNull,     Kind::kBool,     Kind::kInt,
                                    Kind::kDouble,   Kind::kString,   Kind::kAny,
                                    Kind::kList,     Kind::kMap,      Kind::kTimestamp,
                                    Kind::kDuration, Kind::kQuantity, Kind::kOptional};
  if (const auto* reference = std::get_if<Reference>(&rep_)) {
    return reference->json->is_array() ? Kind::kList : Kind::kMap;
  }
  return kKinds[rep_.index()];
}

size_t Value::size() const {
  if (is(Kind::kString)) return base::CountCharacters(string_value());
  if (const auto* reference = std::get_if<Reference>(&rep_)) return reference->json->size();
  if (const auto* list = std::get_if<std::shared_ptr<const List>>(&rep_)) return (*list)->size();
  if (const auto* map = std::get_if<std::shared_ptr<const Entries>>(&rep_)) return (*map)->size();
  return 0;
}

Value Value::item(size_t index) const {
  if (const auto* reference = std::get_if<Reference>(&rep_)) {
    return FromJson((*reference->json)[index],
                    reference->schema != nullptr ? reference->schema->element : nullptr);
  }
  return (*std::get<std::shared_ptr<const List>>(rep_))[index];
}

const Schema* Value::item_schema() const {
  const auto* reference = std::get_if<Reference>(&rep_);
  return reference != nullptr && reference->schema != nullptr ? reference->schema->element
                                                              : nullptr;
}

List Value::items() const {
  List out;
  out.reserve(size());
  if (is(Kind::kList)) {
    for (size_t i = 0; i < size(); ++i) out.push_back(item(i));
  } else if (const auto* reference = std::get_if<Reference>(&rep_)) {
    for (auto it = reference->json->begin(); it != reference->json->end(); ++it) {
      out.push_back(ReferToText(it.key()));
    }
  } else {
    for (const auto& entry : *std::get<std::shared_ptr<const Entries>>(rep_)) {
      out.push_back(entry.first);
    }
  }
  return out;
}

std::optional<Value> Value::field(std::string_view name) const {
  if (const auto* reference = std::get_if<Reference>(&rep_)) {
    const auto it = reference->json->find(name);
    if (it == reference->json->end()) return std::nullopt;
    return FromJson(*it, MemberSchema(reference->schema, name));
  }
  return member(std::string(name));
}

std::optional<Value> Value::member(const Value& key) const {
  if (std::holds_alternative<Reference>(rep_)) {
    return key.is(Kind::kString) ? field(key.string_value()) : std::nullopt;
  }
  for (const auto& [name, value] : *std::get<std::shared_ptr<const Entries>>(rep_)) {
    if (IsSameKey(name, key)) return value;
  }
  return std::nullopt;
}

bool Value::any_order() const {
  const auto* reference = std::get_if<Reference>(&rep_);
  return reference != nullptr && reference->schema != nullptr &&
         reference->schema->list_type != ListType::kAtomic;
}

bool Value::EqualLists(const Value& other, Budget& budget) const {
  if (size() != other.size()) return false;
  const bool ordered = !any_order() && !other.any_order();
  for (size_t i = 0; i < size(); ++i) {
    const Value wanted = item(i);
    bool found = wanted.Equals(other.item(i), budget);  // true for most lists: equal order
    for (size_t j = 0; !ordered && !found && j < other.size() && budget.left() >= 0; ++j) {
      found = wanted.Equals(other.item(j), budget);
    }
    if (!found || budget.left() < 0) return false;
  }
  return true;
}

bool Value::EqualMaps(const Value& other, Budget& budget) const {
  if (size() != other.size()) return false;
  for (const Value& key : items()) {
    const auto mine = member(key);
    const auto theirs = other.member(key);
    if (!mine || !theirs || !mine->Equals(*theirs, budget)) return false;
  }
  return true;
}

bool Value::Equals(const Value& other, Budget& budget) const {
  const Kind a = kind();
  const Kind b = other.kind();
  if (!budget.Spend(1)) return false;
  if (a == Kind::kInt && b == Kind::kDouble) return double(int_value()) == other.double_value();
  if (a == Kind::kDouble && b == Kind::kInt) return double_value() == double(other.int_value());
  if (a != b) return false;
  switch (a) {
    case Kind::kBool:
      return bool_value() == other.bool_value();
    case Kind::kInt:
      return int_value() == other.int_value();
    case Kind::kDouble:
      return double_value() == other.double_value();
    case Kind::kString:
      budget.SpendText(std::min(string_value().size(), other.string_value().size()));
      return string_value() == other.string_value();
    case Kind::kTimestamp:
      return time_value() == other.time_value();
    case Kind::kDuration:
      return duration_value() == other.duration_value();
    case Kind::kQuantity:
      return quantity_value() == other.quantity_value();
    case Kind::kList:
      return EqualLists(other, budget);
    case Kind::kMap:
      return EqualMaps(other, budget);
    case Kind::kOptional: {
      const Value* mine = optional_value();
      const Value* theirs = other.optional_value();
      return mine != nullptr && theirs != nullptr ? mine->Equals(*theirs, budget) : mine == theirs;
    }
    default:
      return true;  // null
  }
}

std::optional<std::partial_ordering> Compare(const Value& a, const Value& b, Budget& budget) {
  const Kind x = a.kind();
  const Kind y = b.kind();
  if (x == Kind::kInt && y == Kind::kDouble) return double(a.int_value()) <=> b.double_value();
  if (x == Kind::kDouble && y == Kind::kInt) return a.double_value() <=> double(b.int_value());
  if (x != y) return std::nullopt;
  switch (x) {
    case Kind::kBool:
      return a.bool_value() <=> b.bool_value();
    case Kind::kInt:
      return a.int_value() <=> b.int_value();
    case Kind::kDouble:
      return a.double_value() <=> b.double_value();
    case Kind::kString:
      budget.SpendText(std::min(a.string_value().size(), b.string_value().size()));
      return a.string_value() <=> b.string_value();
    case Kind::kTimestamp:
      return a.time_value() <=> b.time_value();
    case Kind::kDuration:
      return a.duration_value() <=> b.duration_value();
    default:
      return std::nullopt;
  }
}

base::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  using std::chrono::nanoseconds;
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1},   {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3},
      {"ms", 1e6}, {"s", 1e9},  {"m", 60e9}, {"h", 3600e9}};
  const auto invalid = [&] {
    return base::Error(base::StatusCode::kInvalidArgument, "invalid duration {}",
                       base::Quote(text));
  };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return nanoseconds(0);
  if (rest.empty()) return invalid();
  double total = 0;
  while (!rest.empty()) {
    double number = 0;
    if (rest.front() != '.' && (rest.front() < '0' || rest.front() > '9')) return invalid();
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc()) return invalid();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    // The longest unit that matches is right: "ms" and not "m".
    const std::pair<std::string_view, double>* unit = nullptr;
    for (const auto& one : kUnits) {
      if (rest.starts_with(one.first) && (!unit || one.first.size() > unit->first.size()))
        unit = &one;
    }
    if (unit == nullptr) return invalid();
    rest.remove_prefix(unit->first.size());
    total += number * unit->second;
  }
  if (total > 9.2e18) return invalid();
  return nanoseconds(static_cast<int64_t>(negative ? -total : total));
}

}  // namespace berth::api::cel
