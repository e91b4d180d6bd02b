#include "api/cel/functions.h"

#include <charconv>
#include <cmath>

#include "api/cel/string_functions.h"
#include "api/time.h"
#include "base/utf8.h"

namespace berth::api::cel {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

using Args = std::span<const Value>;

constexpr size_t kMaxPatternBytes = 4096;
constexpr int64_t kMaxRegexBytes = 1 << 20;

// ---- conversions and sizes

StatusOr<Value> Size(CallContext&, Args args) {
  const Kind kind = args[0].kind();
  if (kind != Kind::kString && kind != Kind::kList && kind != Kind::kMap) return NoSuchOverload();
  return static_cast<int64_t>(args[0].size());
}

StatusOr<Value> ToInt(CallContext&, Args args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kInt:
      return value;
    case Kind::kDouble:
      if (!(std::abs(value.double_value()) < 0x1p63)) return EvaluationError("integer overflow");
      return static_cast<int64_t>(value.double_value());
    case Kind::kDuration:
      return int64_t{value.duration_value().count()};
    case Kind::kTimestamp:
      // As Go's Time.Unix: a moment before 1970 rounds down, too.
      return int64_t{
          std::chrono::floor<std::chrono::seconds>(value.time_value().time_since_epoch()).count()};
    case Kind::kString: {
      const std::string& text = value.string_value();
      int64_t number = 0;
      const char* const end = text.data() + text.size();
      const auto result = std::from_chars(text.data(), end, number);
      if (text.empty() || result.ec != std::errc() || result.ptr != end) {
        return EvaluationError("type conversion error from 'string' to 'int'");
      }
      return number;
    }
    default:
      return NoSuchOverload();
  }
}

StatusOr<Value> ToDouble(CallContext&, Args args) {
  const Value& value = args[0];
  if (value.is(Kind::kDouble)) return value;
  if (value.is(Kind::kInt)) return static_cast<double>(value.int_value());
  if (!value.is(Kind::kString)) return NoSuchOverload();
  const std::string& text = value.string_value();
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) {
    return EvaluationError("type conversion error from 'string' to 'double'");
  }
  return number;
}

// Writes a number as Go's %g does: with the fewest digits that give the number back, and with the
// exponent if that is below -4 or above 5.
std::string FormatDouble(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, number, std::chars_format::scientific);
  const std::string_view scientific(text, static_cast<size_t>(written.ptr - text));
  int exponent = 0;
  const char* digits = text + scientific.find('e') + 1;
  if (*digits == '+') ++digits;
  std::from_chars(digits, written.ptr, exponent);
  if (exponent < -4 || exponent > 5) return std::string(scientific);
  return std::string(text,
                     std::to_chars(text, text + sizeof text, number, std::chars_format::fixed).ptr);
}

// Writes a duration as cel-go does: seconds as a floating-point number, never with an exponent.
std::string FormatDuration(std::chrono::nanoseconds duration) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t count = duration.count();
  const double seconds =
      static_cast<double>(count / kSecond) + static_cast<double>(count % kSecond) / 1e9;
  char text[64];
  const auto written = std::to_chars(text, text + sizeof text, seconds, std::chars_format::fixed);
  return std::string(text, written.ptr) + "s";
}

StatusOr<Value> ToString(CallContext&, Args args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kString:
      return value;
    case Kind::kInt:
      return std::to_string(value.int_value());
    case Kind::kDouble:
      return FormatDouble(value.double_value());
    case Kind::kBool:
      return std::string(value.bool_value() ? "true" : "false");
    case Kind::kTimestamp:
      return FormatTime(value.time_value());
    case Kind::kDuration:
      return FormatDuration(value.duration_value());
    default:
      return NoSuchOverload();
  }
}

StatusOr<Value> ToBool(CallContext&, Args args) {
  if (args[0].is(Kind::kBool)) return args[0];
  if (!args[0].is(Kind::kString)) return NoSuchOverload();
  if (args[0].string_value() == "true") return true;
  if (args[0].string_value() == "false") return false;
  return EvaluationError("type conversion error from 'string' to 'bool'");
}

StatusOr<Value> ToTimestamp(CallContext&, Args args) {
  if (args[0].is(Kind::kTimestamp)) return args[0];
  if (!args[0].is(Kind::kString)) return NoSuchOverload();
  ASSIGN_OR_RETURN(const base::WallTime time, ParseTime(args[0].string_value()));
  return time;
}

StatusOr<Value> ToDuration(CallContext&, Args args) {
  if (args[0].is(Kind::kDuration)) return args[0];
  if (!args[0].is(Kind::kString)) return NoSuchOverload();
  ASSIGN_OR_RETURN(const std::chrono::nanoseconds duration, ParseDuration(args[0].string_value()));
  return duration;
}

StatusOr<Value> Dyn(CallContext&, Args args) { return args[0]; }

// ---- lists

// Converts an index in bytes to an index in characters; npos becomes -1.
int64_t CountCharactersBefore(std::string_view text, size_t found) {
  if (found == std::string_view::npos) return -1;
  return static_cast<int64_t>(base::CountCharacters(text.substr(0, found)));
}

StatusOr<Value> IndexOf(CallContext& context, Args args) {
  if (args[0].is(Kind::kString) && args[1].is(Kind::kString)) {
    const std::string& text = args[0].string_value();
    const std::string& wanted = args[1].string_value();
    if (!context.budget.SpendSearch(text.size(), wanted.size())) return OverBudget();
    return CountCharactersBefore(text, text.find(wanted));
  }
  if (!args[0].is(Kind::kList)) return NoSuchOverload();
  for (size_t i = 0; i < args[0].size(); ++i) {
    const bool same = args[0].item(i).Equals(args[1], context.budget);
    if (context.budget.left() < 0) return OverBudget();
    if (same) return static_cast<int64_t>(i);
  }
  return int64_t{-1};
}

StatusOr<Value> LastIndexOf(CallContext& context, Args args) {
  if (args[0].is(Kind::kString) && args[1].is(Kind::kString)) {
    const std::string& text = args[0].string_value();
    const std::string& wanted = args[1].string_value();
    if (!context.budget.SpendSearch(text.size(), wanted.size())) return OverBudget();
    return CountCharactersBefore(text, text.rfind(wanted));
  }
  if (!args[0].is(Kind::kList)) return NoSuchOverload();
  for (size_t i = args[0].size(); i > 0; --i) {
    const bool same = args[0].item(i - 1).Equals(args[1], context.budget);
    if (context.budget.left() < 0) return OverBudget();
    if (same) return static_cast<int64_t>(i - 1);
  }
  return int64_t{-1};
}

StatusOr<Value> IsSorted(CallContext& context, Args args) {
  if (!args[0].is(Kind::kList)) return NoSuchOverload();
  for (size_t i = 1; i < args[0].size(); ++i) {
    const auto order = Compare(args[0].item(i - 1), args[0].item(i), context.budget);
    if (!context.budget.Spend(1)) return OverBudget();
    if (!order) return NoSuchOverload();
    if (*order == std::partial_ordering::greater) return false;
  }
  return true;
}

// Finds the least item of a list if `wanted` is less, or the greatest if it is greater. `name` is
// the function's, for the error.
StatusOr<Value> FindExtreme(CallContext& context, Args args, std::partial_ordering wanted,
                            std::string_view name) {
  if (!args[0].is(Kind::kList)) return NoSuchOverload();
  if (args[0].size() == 0) return EvaluationError(fmt::format("{} called on empty list", name));
  Value best = args[0].item(0);
  for (size_t i = 1; i < args[0].size(); ++i) {
    Value item = args[0].item(i);
    const auto order = Compare(item, best, context.budget);
    if (!context.budget.Spend(1)) return OverBudget();
    if (!order) return NoSuchOverload();
    if (*order == wanted) best = std::move(item);
  }
  return best;
}

StatusOr<Value> Min(CallContext& context, Args args) {
  return FindExtreme(context, args, std::partial_ordering::less, "min");
}
StatusOr<Value> Max(CallContext& context, Args args) {
  return FindExtreme(context, args, std::partial_ordering::greater, "max");
}

// Adds up a list of durations, whose first item is one.
StatusOr<Value> SumDurations(CallContext& context, const Value& list) {
  int64_t sum = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!context.budget.Spend(1)) return OverBudget();
    const Value item = list.item(i);
    if (!item.is(Kind::kDuration)) return NoSuchOverload();
    if (__builtin_add_overflow(sum, int64_t{item.duration_value().count()}, &sum)) {
      return EvaluationError("integer overflow");
    }
  }
  return std::chrono::nanoseconds(sum);
}

StatusOr<Value> Sum(CallContext& context, Args args) {
  if (!args[0].is(Kind::kList)) return NoSuchOverload();
  if (args[0].size() > 0 && args[0].item(0).is(Kind::kDuration)) {
    return SumDurations(context, args[0]);
  }
  // The sum of no items is of the kind that the schema gives to the items.
  if (const Schema* item = args[0].item_schema(); args[0].size() == 0 && item != nullptr) {
    if (item->type == FieldType::kNumber) return 0.0;
    if (item->format == "duration") return std::chrono::nanoseconds(0);
  }
  int64_t whole = 0;
  double real = 0;
  bool is_real = false;
  for (size_t i = 0; i < args[0].size(); ++i) {
    if (!context.budget.Spend(1)) return OverBudget();
    const Value item = args[0].item(i);
    if (item.is(Kind::kDouble)) {
      is_real = true;
      real += item.double_value();
    } else if (!item.is(Kind::kInt)) {
      return NoSuchOverload();
    } else if (__builtin_add_overflow(whole, item.int_value(), &whole)) {
      return EvaluationError("integer overflow");
    }
  }
  if (is_real) return real + static_cast<double>(whole);
  return whole;
}

// Whether the list has the item. Returns false also if the budget is used up.
bool HasItem(const Value& list, const Value& wanted, Budget& budget) {
  for (size_t i = 0; i < list.size() && budget.left() >= 0; ++i) {
    if (list.item(i).Equals(wanted, budget)) return true;
  }
  return false;
}

enum class Quantifier { kAll, kAny };

// Tells whether all items of args[1], or any of them, are in args[0].
StatusOr<Value> HasItems(CallContext& context, Args args, Quantifier quantifier) {
  if (!args[0].is(Kind::kList) || !args[1].is(Kind::kList)) return NoSuchOverload();
  for (size_t i = 0; i < args[1].size(); ++i) {
    const bool found = HasItem(args[0], args[1].item(i), context.budget);
    if (context.budget.left() < 0) return OverBudget();
    if (found && quantifier == Quantifier::kAny) return true;
    if (!found && quantifier == Quantifier::kAll) return false;
  }
  return quantifier == Quantifier::kAll;
}
StatusOr<Value> SetsContains(CallContext& context, Args args) {
  return HasItems(context, args, Quantifier::kAll);
}
StatusOr<Value> SetsIntersects(CallContext& context, Args args) {
  return HasItems(context, args, Quantifier::kAny);
}
StatusOr<Value> SetsEquivalent(CallContext& context, Args args) {
  ASSIGN_OR_RETURN(const Value contained, HasItems(context, args, Quantifier::kAll));
  if (!contained.bool_value()) return contained;
  const Value swapped[] = {args[1], args[0]};
  return HasItems(context, swapped, Quantifier::kAll);
}

// ---- quantities

StatusOr<Value> ToQuantity(CallContext&, Args args) {
  if (!args[0].is(Kind::kString)) return NoSuchOverload();
  ASSIGN_OR_RETURN(const Quantity quantity, Quantity::Parse(args[0].string_value()));
  return quantity;
}

StatusOr<Value> IsQuantity(CallContext&, Args args) {
  if (!args[0].is(Kind::kString)) return NoSuchOverload();
  return Quantity::Parse(args[0].string_value()).ok();
}

template <bool (*kHolds)(std::strong_ordering)>
StatusOr<Value> CompareQuantity(CallContext&, Args args) {
  if (!args[0].is(Kind::kQuantity) || !args[1].is(Kind::kQuantity)) return NoSuchOverload();
  return kHolds(args[0].quantity_value() <=> args[1].quantity_value());
}
bool Greater(std::strong_ordering order) { return order > 0; }
bool Less(std::strong_ordering order) { return order < 0; }

StatusOr<Value> CompareTo(CallContext&, Args args) {
  if (!args[0].is(Kind::kQuantity) || !args[1].is(Kind::kQuantity)) return NoSuchOverload();
  const auto order = args[0].quantity_value() <=> args[1].quantity_value();
  return int64_t{order < 0 ? -1 : order > 0 ? 1 : 0};
}

StatusOr<Value> AsInteger(CallContext&, Args args) {
  if (!args[0].is(Kind::kQuantity)) return NoSuchOverload();
  return args[0].quantity_value().value();
}

// ---- optionals

StatusOr<Value> OptionalOf(CallContext&, Args args) { return Value::Some(args[0]); }
StatusOr<Value> OptionalNone(CallContext&, Args) { return Value::None(); }

StatusOr<Value> HasValue(CallContext&, Args args) {
  if (!args[0].is(Kind::kOptional)) return NoSuchOverload();
  return args[0].optional_value() != nullptr;
}

StatusOr<Value> ValueOf(CallContext&, Args args) {
  if (!args[0].is(Kind::kOptional)) return NoSuchOverload();
  if (args[0].optional_value() == nullptr) return EvaluationError("optional.none() dereference");
  return *args[0].optional_value();
}

StatusOr<Value> OrValue(CallContext&, Args args) {
  if (!args[0].is(Kind::kOptional)) return NoSuchOverload();
  return args[0].optional_value() != nullptr ? *args[0].optional_value() : args[1];
}

// ---- durations

template <typename Unit>
StatusOr<Value> CountUnits(CallContext&, Args args) {
  if (!args[0].is(Kind::kDuration)) return NoSuchOverload();
  return int64_t{std::chrono::duration_cast<Unit>(args[0].duration_value()).count()};
}

constexpr Function kFunctions[] = {
    {"size", false, 1, 1, Kind::kInt, 0, Size},
    {"size", true, 1, 1, Kind::kInt, 0, Size},
    {"int", false, 1, 1, Kind::kInt, 0, ToInt},
    {"double", false, 1, 1, Kind::kDouble, 0, ToDouble},
    {"string", false, 1, 1, Kind::kString, 0, ToString},
    {"bool", false, 1, 1, Kind::kBool, 0, ToBool},
    {"timestamp", false, 1, 1, Kind::kTimestamp, 0, ToTimestamp},
    {"duration", false, 1, 1, Kind::kDuration, 0, ToDuration},
    {"dyn", false, 1, 1, Kind::kAny, 0, Dyn},
    {"indexOf", true, 2, 2, Kind::kInt, 0, IndexOf},
    {"lastIndexOf", true, 2, 2, Kind::kInt, 0, LastIndexOf},
    {"isSorted", true, 1, 1, Kind::kBool, 0, IsSorted},
    {"min", true, 1, 1, Kind::kAny, 0, Min},
    {"max", true, 1, 1, Kind::kAny, 0, Max},
    {"sum", true, 1, 1, Kind::kAny, 0, Sum},
    {"sets.contains", false, 2, 2, Kind::kBool, 0, SetsContains},
    {"sets.intersects", false, 2, 2, Kind::kBool, 0, SetsIntersects},
    {"sets.equivalent", false, 2, 2, Kind::kBool, 0, SetsEquivalent},
    {"quantity", false, 1, 1, Kind::kQuantity, 0, ToQuantity},
    {"isQuantity", false, 1, 1, Kind::kBool, 0, IsQuantity},
    {"isGreaterThan", true, 2, 2, Kind::kBool, 0, CompareQuantity<Greater>},
    {"isLessThan", true, 2, 2, Kind::kBool, 0, CompareQuantity<Less>},
    {"compareTo", true, 2, 2, Kind::kInt, 0, CompareTo},
    {"asInteger", true, 1, 1, Kind::kInt, 0, AsInteger},
    {"optional.of", false, 1, 1, Kind::kOptional, 0, OptionalOf},
    {"optional.none", false, 0, 0, Kind::kOptional, 0, OptionalNone},
    {"hasValue", true, 1, 1, Kind::kBool, 0, HasValue},
    {"value", true, 1, 1, Kind::kAny, 0, ValueOf},
    {"orValue", true, 2, 2, Kind::kAny, 0, OrValue},
    {"getHours", true, 1, 1, Kind::kInt, 0, CountUnits<std::chrono::hours>},
    {"getMinutes", true, 1, 1, Kind::kInt, 0, CountUnits<std::chrono::minutes>},
    {"getSeconds", true, 1, 1, Kind::kInt, 0, CountUnits<std::chrono::seconds>},
    {"getMilliseconds", true, 1, 1, Kind::kInt, 0, CountUnits<std::chrono::milliseconds>},
};

}  // namespace

const Function* FindFunction(std::string_view name, bool member) {
  for (const std::span<const Function> functions :
       {std::span<const Function>(kFunctions), StringFunctions()}) {
    for (const Function& function : functions) {
      if (function.name == name && function.member == member) return &function;
    }
  }
  return nullptr;
}

Status NoSuchOverload() { return EvaluationError("no such overload"); }

Status OverBudget() {
  return Status(StatusCode::kResourceExhausted, "operation cancelled: actual cost limit exceeded");
}

StatusOr<std::shared_ptr<const RE2>> CompilePattern(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return EvaluationError(fmt::format("a pattern may have at most {} bytes", kMaxPatternBytes));
  }
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMaxRegexBytes);
  auto regex =
      std::make_shared<const RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!regex->ok()) return EvaluationError(fmt::format("error parsing regexp: {}", regex->error()));
  return regex;
}

}  // namespace berth::api::cel
