#include "cmd/berth-init/options.h"

#include <charconv>

namespace berth::init {
namespace {

using base::ipc::Failure;
using base::ipc::Ok;
using base::ipc::Problem;
using base::ipc::Result;

// The longest name that Kubernetes allows.
constexpr size_t kLongestName = 253;

Failure InvalidOption(std::string text) { return {Problem::kBroken, std::move(text)}; }

bool IsPlain(char c, std::string_view further) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         further.find(c) != std::string_view::npos;
}

Failure CheckName(std::string_view what, std::string_view name, std::string_view further) {
  if (name.empty()) return InvalidOption(std::string(what) + " is not set");
  bool plain = name.size() <= kLongestName && name.front() != '.' && name.front() != '/';
  for (const char c : name) plain = plain && IsPlain(c, further);
  return plain ? Ok()
               : InvalidOption(std::string(what) + " is no name: '" + std::string(name) + "'");
}

Failure CheckFolder(std::string_view flag, std::string_view path) {
  if (path.starts_with('/')) return Ok();
  return InvalidOption(std::string(flag) + " is not an absolute path: '" + std::string(path) + "'");
}

Failure CheckOptions(const Options& options) {
  if (options.plugins.empty())
    return InvalidOption("no plugin is named: --plugin kubernetes.io/glusterfs");
  for (const std::string& plugin : options.plugins) {
    // '/' becomes '~' in the file's name. A plugin's name may have no '~', because two plugins
    // could then share one file.
    Failure failure = CheckName("--plugin", plugin, "-._/");
    if (!failure.ok()) return failure;
  }
  struct Name {
    std::string_view what;
    const std::string& value;
    std::string_view further;
  };
  const Pod& pod = options.pod;
  for (const Name& name : {Name{"--container (or $CONTAINER_NAME)", pod.container, "-"},
                           {"$POD_NAMESPACE (downward API: metadata.namespace)", pod.ns, "-"},
                           {"$POD_NAME (downward API: metadata.name)", pod.name, "-."},
                           {"$POD_UID (downward API: metadata.uid)", pod.uid, "-"}}) {
    Failure failure = CheckName(name.what, name.value, name.further);
    if (!failure.ok()) return failure;
  }
  if (Failure failure = CheckFolder("--kubelet-dir", options.kubelet_folder); !failure.ok()) {
    return failure;
  }
  return CheckFolder("--host-mountinfo", options.host_mounts);
}

Failure SetGrace(std::string_view text, Options& options) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) {
    return InvalidOption("--grace is not a number of seconds: '" + std::string(text) + "'");
  }
  options.grace = std::chrono::seconds(seconds);
  return Ok();
}

Failure SetFlag(std::string_view flag, std::string_view value, Options& options) {
  if (flag == "--plugin") {
    options.plugins.emplace_back(value);
  } else if (flag == "--container") {
    options.pod.container = value;
  } else if (flag == "--kubelet-dir") {
    options.kubelet_folder = value;
  } else if (flag == "--host-mountinfo") {
    options.host_mounts = value;
  } else if (flag == "--grace") {
    return SetGrace(value, options);
  } else {
    return InvalidOption("there is no flag '" + std::string(flag) + "': see --help");
  }
  return Ok();
}

}  // namespace

Result<Options> ParseOptions(std::span<const char* const> arguments,
                             const char* (*environment)(const char* name)) {
  const auto variable = [environment](const char* name) {
    const char* value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  Options options;
  options.pod = {.ns = variable("POD_NAMESPACE"),
                 .name = variable("POD_NAME"),
                 .uid = variable("POD_UID"),
                 .container = variable("CONTAINER_NAME")};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      options.command.assign(arguments.begin() + static_cast<ptrdiff_t>(i) + 1, arguments.end());
      if (options.command.empty()) return InvalidOption("there is no command behind '--'");
      break;
    }
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    const size_t equals = argument.find('=');
    const std::string_view flag = argument.substr(0, equals);
    if (!flag.starts_with("--")) {
      return InvalidOption("'" + std::string(argument) +
                           "' is no flag; a command stands behind '--'");
    }
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return InvalidOption(std::string(flag) + " needs a value");
    }
    if (Failure failure = SetFlag(flag, value, options); !failure.ok()) return failure;
  }
  if (Failure failure = CheckOptions(options); !failure.ok()) return failure;
  return options;
}

}  // namespace berth::init
