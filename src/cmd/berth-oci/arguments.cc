#include "cmd/berth-oci/arguments.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace berth::oci {
namespace {

// Flags whose value is the next argument, unless it follows a '='. Other flags have no value.
constexpr std::array<std::string_view, 6> kGlobal = {
    "root", "log", "log-format", "criu", "cgroup-manager", "rootless"};
constexpr std::array<std::string_view, 12> kOfCommand = {
    "bundle",    "b", "console-socket", "preserve-fds", "config", "pid-file", "process", "p",
    "resources", "r", "format",         "interval"};

// Reads the flag at `at` with its value, and moves `at` behind them.
class Flag {
 public:
  Flag(const std::vector<std::string>& argv, size_t& at, auto& with_value) {
    std::string_view text = argv[at++];
    text.remove_prefix(text.starts_with("--") ? 2 : 1);
    const size_t equals = text.find('=');
    name_ = text.substr(0, equals);
    if (equals != std::string_view::npos) {
      value_ = text.substr(equals + 1);
    } else if (std::ranges::find(with_value, name_) != with_value.end() && at < argv.size()) {
      value_ = argv[at++];
    }
  }
  std::string_view name() const { return name_; }
  std::string value() const { return std::string(value_); }

 private:
  std::string_view name_;
  std::string_view value_;
};

bool IsFlag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

}  // namespace

Arguments ReadArguments(const std::vector<std::string>& argv) {
  Arguments arguments;
  size_t at = 1;
  while (at < argv.size() && IsFlag(argv[at])) {
    const Flag flag(argv, at, kGlobal);
    if (flag.name() == "root" && !flag.value().empty()) arguments.root = flag.value();
    if (flag.name() == "log") arguments.log = flag.value();
    if (flag.name() == "log-format") arguments.log_is_json = flag.value() == "json";
  }
  if (at < argv.size()) arguments.command = argv[at++];
  while (at < argv.size()) {
    if (!IsFlag(argv[at])) {
      arguments.words.push_back(argv[at++]);
      continue;
    }
    const Flag flag(argv, at, kOfCommand);
    if (flag.name() == "bundle" || flag.name() == "b") arguments.bundle = flag.value();
    if (flag.name() == "pid-file") arguments.pid_file = flag.value();
    if (flag.name() == "console-socket") arguments.console_socket = flag.value();
    if (flag.name() == "process" || flag.name() == "p") arguments.process = flag.value();
    if (flag.name() == "resources" || flag.name() == "r") arguments.resources = flag.value();
    if (flag.name() == "all" || flag.name() == "a") arguments.all = true;
    if (flag.name() == "force" || flag.name() == "f") arguments.force = true;
    if (flag.name() == "detach" || flag.name() == "d") arguments.detach = true;
  }
  if (!arguments.words.empty()) arguments.id = arguments.words.front();
  return arguments;
}

}  // namespace berth::oci
