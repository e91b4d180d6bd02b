#include "node/utilities/utility_command.h"

#include <algorithm>
#include <array>

#include "base/ipc/utility_call.h"
#include "base/log.h"

namespace berth::node {
namespace {

namespace utility = base::ipc::utility;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMostBytes = 128 * 1024;  // of argv, and of env
constexpr size_t kMaxOutput = 512 * 1024;  // of each stream

// Variables that belong to the host, or to the shell that reads the environment file, and not to
// the call.
constexpr std::array<std::string_view, 20> kHosts = {
    "PATH",     "HOME",   "SHELL",  "PWD", "OLDPWD",   "SHLVL",    "_",
    "TERM",     "TMPDIR", "IFS",    "ENV", "UID",      "EUID",     "PPID",
    "BASH_ENV", "LANG",   "OPTIND", "PS4", "LANGUAGE", "SHELLOPTS"};
constexpr std::array<std::string_view, 4> kHostsPrefixes = {"LD_", "LC_", "BASH", "BERTH_"};

bool IsVariable(std::string_view name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

bool IsPassedOn(std::string_view name) {
  return IsVariable(name) && std::find(kHosts.begin(), kHosts.end(), name) == kHosts.end() &&
         std::none_of(kHostsPrefixes.begin(), kHostsPrefixes.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::string QuoteForShell(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return quoted + "'";
}

Status CheckWords(std::string_view what, const std::vector<std::string>& words) {
  size_t bytes = 0;
  for (const std::string& word : words) {
    bytes += word.size() + 1;
    if (word.find('\0') != std::string::npos) {
      return Error(StatusCode::kInvalidArgument, "the {} contain a NUL", what);
    }
  }
  if (bytes <= kMostBytes) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "the {} have {} bytes, and at most {} are allowed",
               what, bytes, kMostBytes);
}

// Whether `path` is below `folder`, judged by its text alone.
bool IsBelow(std::string_view path, std::string_view folder) {
  if (path.find("/../") != std::string_view::npos || path.ends_with("/..")) return false;
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
}

// Whether the program is a FUSE file system, which mounts by itself.
bool IsFuse(std::string_view name) {
  return !utility::IsMountUtility(name) && name.find("fuse") != std::string_view::npos;
}

// The second argument that is not an option; empty if the call mounts nothing.
std::string TargetOfMount(const std::vector<std::string>& argv) {
  std::vector<std::string> places;  // source and target
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--")) return "";
    if (argument.size() < 2 || argument[0] != '-') {
      places.emplace_back(argument);
    } else if (argument.find_first_of("fhV", 1) != std::string_view::npos &&
               argument.find_first_of("otN") != 1) {
      return "";
    } else if (argument == "-o" || argument == "-t" || argument == "-N") {
      ++i;
    }
  }
  return places.size() < 2 ? "" : places[1];
}

}  // namespace

StatusOr<UtilityCall> ReadUtilityCall(const base::ipc::Message& message) {
  const std::string* plugin = message.FindText(utility::kPlugin);
  const auto* argv = message.FindList(utility::kArguments);
  const auto* env = message.FindList(utility::kEnvironment);
  const std::string* folder = message.FindText(utility::kFolder);
  if (plugin == nullptr || plugin->empty() || argv == nullptr || argv->empty() || env == nullptr ||
      folder == nullptr) {
    return Error(StatusCode::kInvalidArgument,
                 "a run needs a plugin, arguments, an environment "
                 "and a working directory");
  }
  const std::string& name = argv->front();
  if (name.empty() || name.starts_with('-') || name.starts_with('.') ||
      name.find_first_of("/=") != std::string::npos) {
    return Error(StatusCode::kInvalidArgument, "{} is not the name of a utility",
                 base::Quote(name));
  }
  RETURN_IF_ERROR(CheckWords("arguments", *argv));
  RETURN_IF_ERROR(CheckWords("environment's variables", *env));
  RETURN_IF_ERROR(CheckWords("names", {*plugin, *folder}));
  return UtilityCall{*plugin, *argv, *env, *folder};
}

platform::Command CommandOf(const UtilityCall& call, std::string_view kubelet_folder) {
  // No argument contains this name by chance.
  constexpr const char* kFile = "berth-utility-environment";
  std::string script;
  if (IsBelow(call.folder, kubelet_folder)) {
    script += fmt::format("cd {} || exit 126\n", QuoteForShell(call.folder));
  }
  for (const std::string& variable : call.env) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || !IsPassedOn(variable.substr(0, equals))) continue;
    script += fmt::format("export {}={}\n", variable.substr(0, equals),
                          QuoteForShell(std::string_view(variable).substr(equals + 1)));
  }
  const std::string& name = call.argv.front();
  platform::Command command{
      .argv = {"sh", "-c",
               fmt::format(R"(. "$0" || exit 126; command -v "$1" >/dev/null 2>&1 || exit {}; )"
                           R"(exec "$@")",
                           kNoUtility),
               fmt::format("{{{}}}", kFile)},
      .secrets = {{.name = kFile, .content = std::move(script)}},
      .timeout = utility::TimeLimitOf(name),
      .max_output = kMaxOutput,
      .leaves_daemon = utility::IsMountUtility(name) || IsFuse(name)};
  command.argv.insert(command.argv.end(), call.argv.begin(), call.argv.end());
  return command;
}

StatusOr<std::vector<std::string>> FindMountTargets(const UtilityCall& call,
                                                    std::string_view kubelet_folder) {
  const std::string& name = call.argv.front();
  std::vector<std::string> places;
  if (utility::IsMountUtility(name)) {
    if (std::string target = TargetOfMount(call.argv); !target.empty()) {
      places.push_back(std::move(target));
    }
  } else if (IsFuse(name)) {
    std::copy_if(call.argv.begin() + 1, call.argv.end(), std::back_inserter(places),
                 [](const std::string& argument) { return argument.starts_with('/'); });
  }
  if (places.empty()) return places;
  const std::string first = places.front();
  std::erase_if(places, [&](const std::string& place) { return !IsBelow(place, kubelet_folder); });
  if (!places.empty()) return places;
  return Error(StatusCode::kInvalidArgument,
               "the pod of {} can mount only below '{}', which it shares with the host, and not at "
               "{}",
               call.plugin, kubelet_folder, base::Quote(first));
}

}  // namespace berth::node
