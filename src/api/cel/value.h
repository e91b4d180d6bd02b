// Values of CEL expressions.
//
// A string, list or object of the document is a reference into the document, and is not copied. So
// the document and its schema must outlive the value. Values are immutable, and copies of a value
// share its text and its items.
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/quantity.h"
#include "api/schema/schema.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api::cel {

using base::Json;

// The kind of a value, or of the result of an expression. kAny: it is known only after the
// evaluation.
enum class Kind {
  kAny,
  kNull,
  kBool,
  kInt,
  kDouble,
  kString,
  kList,
  kMap,
  kTimestamp,
  kDuration,
  kQuantity,
  kOptional,
};

// The name of the kind in messages: "int", "list", ...
std::string_view KindName(Kind kind);

// The remaining cost of an evaluation. One unit is about one step, or ten bytes of text.
class Budget {
 public:
  explicit Budget(int64_t units) : left_(units) {}
  // Subtracts `units`. False: the budget is used up.
  bool Spend(size_t units) {
    left_ -= static_cast<int64_t>(std::min<size_t>(units, INT64_MAX / 4));
    if (left_ < 0) left_ = -1;
    return left_ >= 0;
  }
  // Subtracts the cost of reading or writing `bytes` of text.
  bool SpendText(size_t bytes) { return Spend(bytes / kBytesOfUnit); }
  // Subtracts the cost of a search for `wanted` bytes in `bytes` of text, which may compare each
  // byte with each.
  bool SpendSearch(size_t bytes, size_t wanted) {
    return Spend(bytes / kBytesOfUnit * (1 + wanted / kBytesOfUnit));
  }
  int64_t left() const { return left_; }

 private:
  static constexpr size_t kBytesOfUnit = 10;
  int64_t left_;
};

class Value;
using List = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

// A value of a kind, which an expression works with. Value() is null.
class Value {
 public:
  Value() = default;  // null
  Value(bool value) : rep_(value) {}
  Value(int64_t value) : rep_(value) {}
  Value(double value) : rep_(value) {}
  Value(std::string value) : rep_(std::make_shared<const std::string>(std::move(value))) {}
  Value(base::WallTime value) : rep_(value) {}
  Value(std::chrono::nanoseconds value) : rep_(value) {}
  Value(const Quantity& value) : rep_(value) {}
  static Value Of(List list) { return Value(Rep(std::make_shared<const List>(std::move(list)))); }
  static Value Of(Entries map) {
    return Value(Rep(std::make_shared<const Entries>(std::move(map))));
  }
  // A string that is not copied. `text` must outlive the value.
  static Value ReferToText(const std::string& text) { return Value(Rep(Text(Text(), &text))); }
  // An optional with a value, and an empty one.
  static Value Some(Value value);
  static Value None() { return Value(Rep(Optional{})); }

  // A member of the document. `schema` is its type, and may be null. Strings of the formats
  // date-time and duration become timestamps and durations.
  static Value FromJson(const Json& json, const Schema* schema);

  Kind kind() const;
  bool is(Kind other) const { return kind() == other; }

  // Call each of these only on a value of its kind.
  bool bool_value() const { return std::get<bool>(rep_); }
  int64_t int_value() const { return std::get<int64_t>(rep_); }
  double double_value() const { return std::get<double>(rep_); }
  const std::string& string_value() const { return *std::get<Text>(rep_); }
  base::WallTime time_value() const { return std::get<base::WallTime>(rep_); }
  std::chrono::nanoseconds duration_value() const {
    return std::get<std::chrono::nanoseconds>(rep_);
  }
  const Quantity& quantity_value() const { return std::get<Quantity>(rep_); }
  // The value of an optional; null: it is empty.
  const Value* optional_value() const { return std::get<Optional>(rep_).value.get(); }

  // The number of characters of a string, or of items of a list or map.
  size_t size() const;
  // An item of a list.
  Value item(size_t index) const;
  // The type of the items of a list in the document; null: it is not known.
  const Schema* item_schema() const;
  // Gives the items of a list, or the keys of a map.
  List items() const;
  // The value for a key of a map; nullopt: the map has no such key.
  std::optional<Value> member(const Value& key) const;
  // The same for a member of an object or map by its name.
  std::optional<Value> field(std::string_view name) const;

  // CEL's ==. Numbers of different kinds are compared by value, and lists of a set or map type in
  // any order. Ignore the result if the budget is used up afterwards.
  bool Equals(const Value& other, Budget& budget) const;

 private:
  using Text = std::shared_ptr<const std::string>;
  struct Reference {
    const Json* json;
    const Schema* schema;
  };
  struct Optional {
    std::shared_ptr<const Value> value;
  };
  using Rep = std::variant<std::monostate, bool, int64_t, double, Text, Reference,
                           std::shared_ptr<const List>, std::shared_ptr<const Entries>,
                           base::WallTime, std::chrono::nanoseconds, Quantity, Optional>;
  explicit Value(Rep rep) : rep_(std::move(rep)) {}

  bool EqualLists(const Value& other, Budget& budget) const;
  bool EqualMaps(const Value& other, Budget& budget) const;
  bool any_order() const;

  Rep rep_;
};

// a <=> b for two numbers, strings, booleans, timestamps or durations; nullopt: CEL has no order
// for these kinds. Ignore the result if the budget is used up afterwards.
std::optional<std::partial_ordering> Compare(const Value& a, const Value& b, Budget& budget);

// Parses Go's form of a duration: "1h30m", "300ms". INVALID_ARGUMENT: `text` has another form.
base::StatusOr<std::chrono::nanoseconds> ParseDuration(std::string_view text);

// INVALID_ARGUMENT, the error of an expression that cannot be evaluated on its values.
inline base::Status EvaluationError(std::string_view message) {
  return base::Status(base::StatusCode::kInvalidArgument, base::ToAbsl(message));
}

}  // namespace berth::api::cel
