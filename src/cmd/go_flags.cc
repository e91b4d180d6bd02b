#include "cmd/go_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "controllers/go_bool.h"

namespace berth::cmd {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using roles::ProcessOptions;
using std::chrono::milliseconds;

namespace {

std::string_view TypeName(GoFlag::Type type) {
  switch (type) {
    case GoFlag::Type::kBool:
      return "bool";
    case GoFlag::Type::kInt:
      return "int";
    case GoFlag::Type::kFloat:
      return "float";
    case GoFlag::Type::kDuration:
      return "duration";
    case GoFlag::Type::kString:
      return "string";
  }
  return "";
}

// Checks that `value` has the flag's type, even if the flag has no effect.
Status CheckValue(const GoFlag& flag, const std::string& value) {
  switch (flag.type) {
    case GoFlag::Type::kBool:
      return ParseGoBool(value).status();
    case GoFlag::Type::kInt:
      return ParseGoInt(value).status();
    case GoFlag::Type::kFloat:
      return ParseGoFloat(value).status();
    case GoFlag::Type::kDuration:
      return ParseGoDuration(value).status();
    case GoFlag::Type::kString:
      return base::OkStatus();
  }
  return base::OkStatus();
}

Status ApplyFlag(const GoFlag& flag, const std::string& value, ProcessOptions& options) {
  RETURN_IF_ERROR_WITH(CheckValue(flag, value), "flag -" + flag.name);
  if (flag.apply == nullptr) return base::OkStatus();
  return base::Annotate(flag.apply(options, value), "flag -" + flag.name);
}

template <typename Visit>
Status ForEachPart(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t comma = text.find(',');
    RETURN_IF_ERROR(visit(text.substr(0, comma)));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  return base::OkStatus();
}

}  // namespace

Status ParseGoFlags(const std::vector<GoFlag>& flags, const std::vector<std::string>& arguments,
                    ProcessOptions& options, std::vector<std::string>& warnings) {
  for (const GoFlag& flag : flags) {
    if (flag.use == GoFlag::Use::kDefault) RETURN_IF_ERROR(ApplyFlag(flag, flag.fallback, options));
  }
  Status refused;  // the first that the Go program refuses only after it has read all flags
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      return Error(StatusCode::kInvalidArgument, "{} is not a flag", Quote(argument));
    }
    argument.remove_prefix(argument[1] == '-' ? 2 : 1);
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const auto flag = std::find_if(flags.begin(), flags.end(),
                                   [&](const GoFlag& known) { return known.name == name; });
    if (name.empty() || flag == flags.end()) {
      return Error(StatusCode::kInvalidArgument, "flag provided but not defined: -{}", Quote(name));
    }
    std::string value = "true";
    if (equals != argument.npos) {
      value = argument.substr(equals + 1);
    } else if (flag->type != GoFlag::Type::kBool) {
      if (++i == arguments.size()) {
        return Error(StatusCode::kInvalidArgument, "flag needs an argument: -{}", name);
      }
      value = arguments[i];
    }
    const Status applied = ApplyFlag(*flag, value, options);
    if (applied.code() == StatusCode::kFailedPrecondition) {
      if (refused.ok()) refused = applied;
      continue;
    }
    RETURN_IF_ERROR(applied);
    if (flag->use == GoFlag::Use::kNone) {
      warnings.push_back(fmt::format("flag -{} has no effect: {}", flag->name, flag->help));
    }
    if (flag->list_ignored != nullptr) {
      for (const std::string& line : flag->list_ignored(value)) {
        warnings.push_back(fmt::format("flag -{}: {}", flag->name, line));
      }
    }
  }
  return refused;
}

std::string FormatHelp(const std::vector<GoFlag>& flags) {
  std::string out;
  for (const GoFlag& flag : flags) {
    out += fmt::format("  --{} {}", flag.name, TypeName(flag.type));
    if (!flag.fallback.empty() && flag.use == GoFlag::Use::kDefault) {
      out += fmt::format(" (default {})", flag.fallback);
    }
    out += fmt::format("\n      {}{}\n", flag.use == GoFlag::Use::kNone ? "No effect: " : "",
                       flag.help);
  }
  return out;
}

StatusOr<bool> ParseGoBool(std::string_view text) {
  if (controllers::IsGoTrue(text)) return true;
  for (const char* no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return Error(StatusCode::kInvalidArgument, "{} is not a boolean", Quote(text));
}

StatusOr<int> ParseGoInt(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return Error(StatusCode::kInvalidArgument, "{} is not a whole number", Quote(text));
  }
  return value;
}

StatusOr<double> ParseGoFloat(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Error(StatusCode::kInvalidArgument, "{} is not a number", Quote(text));
  }
  return value;
}

StatusOr<milliseconds> ParseGoDuration(std::string_view text) {
  const Status bad =
      Error(StatusCode::kInvalidArgument, "{} is not a duration, such as 1m30s", Quote(text));
  if (text == "0") return milliseconds(0);
  if (text.empty()) return bad;
  double total = 0;  // milliseconds
  while (!text.empty()) {
    double number = 0;
    const auto [end, failed] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (failed != std::errc() || number < 0) return bad;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const std::string_view unit = text.substr(0, text.find_first_of("0123456789."));
    text.remove_prefix(unit.size());
    if (unit == "h") {
      total += number * 3600e3;
    } else if (unit == "m") {
      total += number * 60e3;
    } else if (unit == "s") {
      total += number * 1e3;
    } else if (unit == "ms") {
      total += number;
    } else if (unit == "us" || unit == "µs") {
      total += number / 1e3;
    } else if (unit == "ns") {
      total += number / 1e6;
    } else {
      return bad;
    }
  }
  if (total > 1e14) return bad;
  return milliseconds(std::llround(total));
}

StatusOr<std::map<std::string, bool>> ParseGates(std::string_view text) {
  std::map<std::string, bool> gates;
  RETURN_IF_ERROR(ForEachPart(text, [&](std::string_view part) -> Status {
    if (part.empty()) return base::OkStatus();
    const size_t equals = part.find('=');
    if (equals == part.npos || equals == 0) {
      return Error(StatusCode::kInvalidArgument, "{} is not a feature gate, such as Name=true",
                   Quote(part));
    }
    ASSIGN_OR_RETURN(gates[std::string(base::Trim(part.substr(0, equals)))],
                     ParseGoBool(base::Trim(part.substr(equals + 1))));
    return base::OkStatus();
  }));
  return gates;
}

StatusOr<api::Labels> ParseLabelFlag(std::string_view text) {
  api::Labels labels;
  RETURN_IF_ERROR(ForEachPart(text, [&](std::string_view part) -> Status {
    const size_t colon = part.find(':');
    if (colon == part.npos || colon == 0) {
      return Error(StatusCode::kInvalidArgument, "{} is not a label, such as key:value",
                   Quote(part));
    }
    labels[std::string(part.substr(0, colon))] = part.substr(colon + 1);
    return base::OkStatus();
  }));
  return labels;
}

}  // namespace berth::cmd
