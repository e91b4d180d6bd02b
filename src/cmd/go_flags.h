// Parses flags in the syntax of Go programs: -flag, --flag, --flag=value, --flag value. A bool
// without '=' is true, and its value can only follow '='. If a flag is given several times, the
// last value counts. The functions are pure.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "roles/process_options.h"

namespace berth::cmd {

struct GoFlag {
  enum class Type { kBool, kInt, kFloat, kDuration, kString };
  // What Berth does with the flag.
  enum class Use {
    kDefault,  // its value is used, and so is its default
    kGiven,    // its value is used; the Go program's default does not apply
    kNone,     // accepted with a warning; `help` says why it has no effect
  };

  std::string name;
  Type type = Type::kString;
  std::string fallback;  // the default, as text
  std::string help;
  Use use = Use::kNone;
  std::function<base::Status(roles::ProcessOptions& options, const std::string& value)> apply =
      nullptr;
  // Returns a line for each part of a valid value that has no effect. Empty: all of it has.
  std::function<std::vector<std::string>(const std::string& value)> list_ignored = nullptr;
};

// Writes the defaults and then `arguments` to `options`, and adds a line to `warnings` for each
// flag, or part of one, without effect. INVALID_ARGUMENT: a flag is unknown, a value is missing or
// malformed, or an argument is not a flag. FAILED_PRECONDITION: all arguments are well-formed, but
// a flag's `apply` refuses a value with this code, because of what the Go program checks once it
// has read its flags.
base::Status ParseGoFlags(const std::vector<GoFlag>& flags,
                          const std::vector<std::string>& arguments, roles::ProcessOptions& options,
                          std::vector<std::string>& warnings);

// Returns the text of --help: each flag with type, default and help.
std::string FormatHelp(const std::vector<GoFlag>& flags);

// These functions parse a value. INVALID_ARGUMENT: the text has another form.
base::StatusOr<bool> ParseGoBool(std::string_view text);  // strconv.ParseBool
base::StatusOr<int> ParseGoInt(std::string_view text);    // decimal
base::StatusOr<double> ParseGoFloat(std::string_view text);
// "1m30s", "1.5h", "300ms", "0"; rounded to milliseconds. A negative duration is an error.
base::StatusOr<std::chrono::milliseconds> ParseGoDuration(std::string_view text);
// "Topology=true, Other=false"; empty parts are skipped.
base::StatusOr<std::map<std::string, bool>> ParseGates(std::string_view text);
// "key:value,key:value"
base::StatusOr<api::Labels> ParseLabelFlag(std::string_view text);

}  // namespace berth::cmd
