// Flags as Go programs take them: -flag, --flag, --flag=value, --flag value; a bool alone is true
// and takes a value only after '='. The last of several wins. Pure.
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
  std::string fallback;  // the default, as a flag's value
  std::string help;
  Use use = Use::kNone;
  std::function<base::Status(roles::ProcessOptions& options, const std::string& value)> apply =
      nullptr;
};

// Puts the defaults and then `arguments` into `options`. What deserves a warning goes to
// `warnings`. INVALID_ARGUMENT for an unknown flag, a missing or malformed value, and an argument
// that belongs to no flag.
base::Status ParseGoFlags(const std::vector<GoFlag>& flags,
                          const std::vector<std::string>& arguments, roles::ProcessOptions& options,
                          std::vector<std::string>& warnings);

// One flag a line, with type, default and help.
std::string HelpText(const std::vector<GoFlag>& flags);

// These functions parse a value. INVALID_ARGUMENT: the text is no such value.
base::StatusOr<bool> ParseGoBool(std::string_view text);  // strconv.ParseBool
base::StatusOr<int> ParseGoInt(std::string_view text);    // decimal
base::StatusOr<double> ParseGoFloat(std::string_view text);
// "1m30s", "1.5h", "300ms", "0"; down to milliseconds, and not negative.
base::StatusOr<std::chrono::milliseconds> ParseGoDuration(std::string_view text);
// "Topology=true,Other=false"
base::StatusOr<std::map<std::string, bool>> ParseGates(std::string_view text);
// "key:value,key:value"
base::StatusOr<api::Labels> ParseLabelFlag(std::string_view text);

}  // namespace berth::cmd
