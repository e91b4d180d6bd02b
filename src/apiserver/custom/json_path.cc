#include "apiserver/custom/json_path.h"

#include <charconv>

#include "base/log.h"

namespace berth::apiserver {

using base::Json;
using base::Status;
using base::StatusOr;

namespace {
constexpr size_t kMaxSteps = 64;
}  // namespace

class JsonPath::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  StatusOr<JsonPath> ParsePath() {
    JsonPath path;
    while (!rest_.empty()) {
      Step step;
      RETURN_IF_ERROR(ParseStep(step));
      path.steps_.push_back(std::move(step));
      if (path.steps_.size() > kMaxSteps) return InvalidPathError();
    }
    return path;
  }

 private:
  Status InvalidPathError() const {
    return base::Error(base::StatusCode::kInvalidArgument, "{} is not a JSONPath that is supported",
                       base::Quote(text_));
  }
  bool TakePrefix(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }
  void SkipSpace() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  Status ParseStep(Step& step) {
    if (TakePrefix(".")) {
      if (TakePrefix("*")) {
        step.type = Step::Type::kAll;
        return base::OkStatus();
      }
      step.name = ReadName();
      // A lone "." is the object itself.
      return step.name.empty() && !(rest_.empty() && text_ == ".") ? InvalidPathError()
                                                                   : base::OkStatus();
    }
    if (!TakePrefix("[")) return InvalidPathError();
    if (TakePrefix("*]")) {
      step.type = Step::Type::kAll;
      return base::OkStatus();
    }
    if (TakePrefix("?(")) {
      step.type = Step::Type::kFilter;
      RETURN_IF_ERROR(ParseFilter(step));
      return TakePrefix(")]") ? base::OkStatus() : InvalidPathError();
    }
    if (rest_.starts_with('\'') || rest_.starts_with('"')) {
      const auto name = ParseQuoted();
      if (!name) return InvalidPathError();
      step.name = *name;
    } else {
      step.type = Step::Type::kIndex;
      const auto [end, error] =
          std::from_chars(rest_.data(), rest_.data() + rest_.size(), step.index);
      if (error != std::errc()) return InvalidPathError();
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    }
    return TakePrefix("]") ? base::OkStatus() : InvalidPathError();
  }

  // The name up to the next step. A backslash escapes the character after it.
  std::string ReadName() {
    std::string name;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\' && rest_.size() > 1) {
        name += rest_[1];
        rest_.remove_prefix(2);
        continue;
      }
      if (std::string_view(".[] =<>!()'\"*").find(c) != std::string_view::npos) break;
      name += c;
      rest_.remove_prefix(1);
    }
    return name;
  }

  std::optional<std::string> ParseQuoted() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return std::nullopt;
    rest_.remove_prefix(1);
    return text;
  }

  Status ParseFilter(Step& step) {
    SkipSpace();
    if (!TakePrefix("@")) return InvalidPathError();
    while (TakePrefix(".")) {
      step.field.push_back(ReadName());
      if (step.field.back().empty()) return InvalidPathError();
    }
    SkipSpace();
    if (rest_.starts_with(')')) return base::OkStatus();
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!TakePrefix(op)) continue;
      step.op = op;
      break;
    }
    SkipSpace();
    if (step.op.empty() || rest_.empty()) return InvalidPathError();
    if (rest_.front() == '\'' || rest_.front() == '"') {
      const auto text = ParseQuoted();
      if (!text) return InvalidPathError();
      step.value = *text;
    } else {
      const size_t end = std::min(rest_.find_first_of(" )"), rest_.size());
      const auto value = base::json::Parse(rest_.substr(0, end));
      if (!value.ok() || value->is_structured()) return InvalidPathError();
      step.value = *value;
      rest_.remove_prefix(end);
    }
    SkipSpace();
    return base::OkStatus();
  }

  const std::string_view text_;
  std::string_view rest_;
};

StatusOr<JsonPath> JsonPath::Parse(std::string_view text) { return Parser(text).ParsePath(); }

bool JsonPath::Matches(const Step& filter, const Json& item) {
  const Json* found = &item;
  for (const std::string& name : filter.field) {
    found = base::json::Find(*found, {name});
    if (found == nullptr) return false;
  }
  if (filter.op.empty()) return true;
  if (filter.op == "==") return *found == filter.value;
  if (filter.op == "!=") return *found != filter.value;
  const bool comparable = (found->is_number() && filter.value.is_number()) ||
                          (found->is_string() && filter.value.is_string());
  if (!comparable) return false;
  if (filter.op == "<") return *found < filter.value;
  if (filter.op == "<=") return *found <= filter.value;
  if (filter.op == ">") return *found > filter.value;
  return *found >= filter.value;
}

const Json* JsonPath::FindValue(const Json& at, const Step* step, const Step* end) {
  if (step == end) return &at;
  switch (step->type) {
    case Step::Type::kField: {
      if (step->name.empty()) return FindValue(at, step + 1, end);
      const Json* member = base::json::Find(at, {step->name});
      return member != nullptr ? FindValue(*member, step + 1, end) : nullptr;
    }
    case Step::Type::kIndex: {
      if (!at.is_array()) return nullptr;
      const int64_t index =
          step->index < 0 ? step->index + static_cast<int64_t>(at.size()) : step->index;
      if (index < 0 || index >= static_cast<int64_t>(at.size())) return nullptr;
      return FindValue(at[static_cast<size_t>(index)], step + 1, end);
    }
    case Step::Type::kAll:
    case Step::Type::kFilter:
      if (!at.is_structured()) return nullptr;
      for (const Json& item : at) {
        if (step->type == Step::Type::kFilter && !Matches(*step, item)) continue;
        if (const Json* found = FindValue(item, step + 1, end)) return found;
      }
      return nullptr;
  }
  return nullptr;
}

const Json* JsonPath::FindFirst(const Json& object) const {
  return FindValue(object, steps_.data(), steps_.data() + steps_.size());
}

}  // namespace berth::apiserver
