#include "api/cel/string_functions.h"

#include <algorithm>

#include "base/utf8.h"

namespace berth::api::cel {

using base::StatusOr;

namespace {

using Args = std::span<const Value>;

bool AllStrings(Args args) {
  return std::all_of(args.begin(), args.end(),
                     [](const Value& value) { return value.is(Kind::kString); });
}

StatusOr<Value> Contains(CallContext& context, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  const std::string& text = args[0].string_value();
  const std::string& wanted = args[1].string_value();
  if (!context.budget.SpendSearch(text.size(), wanted.size())) return OverBudget();
  return text.find(wanted) != std::string::npos;
}

StatusOr<Value> StartsWith(CallContext&, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  return args[0].string_value().starts_with(args[1].string_value());
}

StatusOr<Value> EndsWith(CallContext&, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  return args[0].string_value().ends_with(args[1].string_value());
}

// Calls `use` with the pattern args[1], which is compiled now unless it is a literal.
template <typename Use>
StatusOr<Value> WithPattern(CallContext& context, Args args, Use use) {
  if (!args[0].is(Kind::kString) || !args[1].is(Kind::kString)) return NoSuchOverload();
  const size_t pattern_cost = std::max<size_t>(1, args[1].string_value().size() / 4);
  if (!context.budget.Spend(args[0].string_value().size() / 10 * pattern_cost)) return OverBudget();
  if (context.regex != nullptr) return use(*context.regex);
  ASSIGN_OR_RETURN(const auto regex, CompilePattern(args[1].string_value()));
  if (!context.budget.Spend(args[1].string_value().size() * 10)) return OverBudget();
  return use(*regex);
}

StatusOr<Value> Matches(CallContext& context, Args args) {
  return WithPattern(context, args, [&](const RE2& regex) -> Value {
    return RE2::PartialMatch(args[0].string_value(), regex);
  });
}

StatusOr<Value> FindFirst(CallContext& context, Args args) {
  return WithPattern(context, args, [&](const RE2& regex) -> Value {
    re2::StringPiece match;
    const std::string& text = args[0].string_value();
    const bool found = regex.Match(text, 0, text.size(), RE2::UNANCHORED, &match, 1);
    return found ? std::string(match.data(), match.size()) : std::string();
  });
}

StatusOr<Value> FindAll(CallContext& context, Args args) {
  return WithPattern(context, args, [&](const RE2& regex) -> Value {
    List found;
    const std::string& text = args[0].string_value();
    re2::StringPiece match;
    for (size_t at = 0;
         at <= text.size() && regex.Match(text, at, text.size(), RE2::UNANCHORED, &match, 1);) {
      found.emplace_back(std::string(match.data(), match.size()));
      const size_t end = static_cast<size_t>(match.data() - text.data()) + match.size();
      at = match.empty() ? end + 1 : end;
    }
    return Value::Of(std::move(found));
  });
}

StatusOr<Value> LowerAscii(CallContext&, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  std::string text = args[0].string_value();
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

StatusOr<Value> UpperAscii(CallContext&, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  std::string text = args[0].string_value();
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

StatusOr<Value> Trim(CallContext&, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  constexpr const char* kSpace = " \t\n\v\f\r";
  const std::string& text = args[0].string_value();
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return std::string();
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

StatusOr<Value> Replace(CallContext& context, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  const std::string& text = args[0].string_value();
  const std::string& from = args[1].string_value();
  const std::string& to = args[2].string_value();
  if (from.empty()) return args[0];
  if (!context.budget.SpendSearch(text.size(), from.size())) return OverBudget();
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string::npos; at = found + from.size()) {
    out.append(text, at, found - at).append(to);
    if (out.size() > kMaxBuilt || !context.budget.Spend(1) || !context.budget.SpendText(to.size()))
      return OverBudget();
  }
  return out.append(text, at);
}

StatusOr<Value> Split(CallContext& context, Args args) {
  if (!AllStrings(args)) return NoSuchOverload();
  const std::string& text = args[0].string_value();
  const std::string& separator = args[1].string_value();
  if (separator.empty()) return NoSuchOverload();
  if (!context.budget.Spend(text.size()) ||
      !context.budget.SpendSearch(text.size(), separator.size())) {
    return OverBudget();
  }
  List parts;
  size_t at = 0;
  for (size_t found; (found = text.find(separator, at)) != std::string::npos;
       at = found + separator.size()) {
    parts.emplace_back(text.substr(at, found - at));
  }
  parts.emplace_back(text.substr(at));
  return Value::Of(std::move(parts));
}

StatusOr<Value> Join(CallContext& context, Args args) {
  if (!args[0].is(Kind::kList) || !AllStrings(args.subspan(1))) return NoSuchOverload();
  std::string out;
  for (size_t i = 0; i < args[0].size(); ++i) {
    const Value item = args[0].item(i);
    if (!item.is(Kind::kString)) return NoSuchOverload();
    if (i > 0 && args.size() > 1) out += args[1].string_value();
    out += item.string_value();
    if (out.size() > kMaxBuilt || !context.budget.Spend(1)) return OverBudget();
  }
  if (!context.budget.SpendText(out.size())) return OverBudget();
  return out;
}

StatusOr<Value> Substring(CallContext&, Args args) {
  if (!args[0].is(Kind::kString) || !args[1].is(Kind::kInt)) return NoSuchOverload();
  const std::string& text = args[0].string_value();
  // The indexes count characters, not bytes.
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!base::ContinuesCharacter(text[i])) starts.push_back(i);
  }
  starts.push_back(text.size());
  const int64_t length = static_cast<int64_t>(starts.size()) - 1;
  const int64_t begin = args[1].int_value();
  if (args.size() > 2 && !args[2].is(Kind::kInt)) return NoSuchOverload();
  const int64_t end = args.size() > 2 ? args[2].int_value() : length;
  if (begin < 0 || begin > length)
    return EvaluationError(fmt::format("index out of range: {}", begin));
  if (end < begin || end > length)
    return EvaluationError(fmt::format("index out of range: {}", end));
  const size_t from = starts[static_cast<size_t>(begin)];
  return text.substr(from, starts[static_cast<size_t>(end)] - from);
}

constexpr Function kStringFunctions[] = {
    {"contains", true, 2, 2, Kind::kBool, 0, Contains},
    {"startsWith", true, 2, 2, Kind::kBool, 0, StartsWith},
    {"endsWith", true, 2, 2, Kind::kBool, 0, EndsWith},
    {"matches", true, 2, 2, Kind::kBool, 1, Matches},
    {"matches", false, 2, 2, Kind::kBool, 1, Matches},
    {"find", true, 2, 2, Kind::kString, 1, FindFirst},
    {"findAll", true, 2, 2, Kind::kList, 1, FindAll},
    {"lowerAscii", true, 1, 1, Kind::kString, 0, LowerAscii},
    {"upperAscii", true, 1, 1, Kind::kString, 0, UpperAscii},
    {"trim", true, 1, 1, Kind::kString, 0, Trim},
    {"replace", true, 3, 3, Kind::kString, 0, Replace},
    {"split", true, 2, 2, Kind::kList, 0, Split},
    {"join", true, 1, 2, Kind::kString, 0, Join},
    {"substring", true, 2, 3, Kind::kString, 0, Substring},
};

}  // namespace

std::span<const Function> StringFunctions() { return kStringFunctions; }

}  // namespace berth::api::cel
