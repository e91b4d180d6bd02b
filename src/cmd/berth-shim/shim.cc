#include "cmd/berth-shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "base/ipc/connection.h"
#include "base/ipc/utility_call.h"
#include "base/text.h"

namespace berth::shim {

namespace ipc = base::ipc;
namespace utility = base::ipc::utility;

namespace {

constexpr size_t kLargestConfig = 64 * 1024;
// The time that the agent has in addition to the run, because it has work before and after it.
constexpr std::chrono::seconds kAround{60};

// Writes `text`, and ignores a failure, because it could not be reported either.
void WriteText(int fd, std::string_view text) { static_cast<void>(base::WriteAll(fd, text)); }

int ReportFailure(const std::string& name, const std::string& why) {
  WriteText(STDERR_FILENO, name + ": " + why + "\n");
  return ToFailureCode(name);
}

// The content of the shim's file: the plugin, and the socket of the agent.
struct Config {
  std::string plugin;
  std::string socket;
};

ipc::Result<Config> ReadConfig(const std::string& name, const std::string& folder) {
  const std::string path = folder + "/" + name + ".json";
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    const std::string hint = errno == ENOENT ? " ('berth install-shims' makes this file)" : "";
    ipc::Failure failure = ipc::SystemFailure("open '" + path + "'", errno);
    failure.text += hint;
    return failure;
  }
  std::string text;
  if (const int error = base::ReadAll(fd.get(), kLargestConfig, text); error != 0) {
    return ipc::SystemFailure("read '" + path + "'", error);
  }
  const auto message = ipc::ReadJson(text);
  const std::string* plugin = message.ok() ? message->FindText(utility::kPlugin) : nullptr;
  const std::string* socket = message.ok() ? message->FindText(utility::kShimSocket) : nullptr;
  if (plugin == nullptr || socket == nullptr) {
    return ipc::Failure{ipc::Problem::kBroken,
                        "'" + path + "' names no plugin and socket: " + message.failure().text};
  }
  return Config{*plugin, *socket};
}

// Returns "" if the folder does not exist any more.
std::string ReadWorkingFolder() {
  char path[PATH_MAX];
  return getcwd(path, sizeof(path)) == nullptr ? "" : path;
}

std::string ExplainFailure(const ipc::Failure& failure, const Config& config) {
  switch (failure.problem) {
    case ipc::Problem::kRefused:
      return failure.text;
    case ipc::Problem::kNobody:
      return "Berth's node agent is not there to run it in the pod of " + config.plugin + ": " +
             failure.text;
    case ipc::Problem::kClosed:
    case ipc::Problem::kTimeout:
      return "Berth's node agent gave no answer, and what was done is unknown: " + failure.text;
    default:
      return "ask Berth's node agent at '" + config.socket + "': " + failure.text;
  }
}

}  // namespace

int ToFailureCode(std::string_view utility) {
  if (utility.starts_with("mount.") || utility.starts_with("umount.")) return 32;
  if (utility.starts_with("fsck.")) return 8;
  return 1;
}

bool NamesStdin(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "-" || argument.ends_with("=-") || argument.ends_with("/dev/stdin")) {
      return true;
    }
  }
  return false;
}

bool HoldsInput(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return false;
  if (S_ISREG(info.st_mode)) return lseek(fd, 0, SEEK_CUR) < info.st_size;
  int waiting = 0;
  return (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) && ioctl(fd, FIONREAD, &waiting) == 0 &&
         waiting > 0;
}

int RunShim(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
            const std::string& shim_folder) {
  const std::string name(argv.empty() ? "" : base::FileNameOf(argv[0]));
  if (name.empty() || name == "berth-shim") {
    return ReportFailure("berth-shim",
                         "this program replaces mount utilities: see 'berth install-shims'");
  }
  const auto config = ReadConfig(name, shim_folder);
  if (!config.ok()) return ReportFailure(name, config.failure().text);
  std::vector<std::string> arguments(argv.begin(), argv.end());
  arguments[0] = name;
  if (NamesStdin(arguments) || HoldsInput(STDIN_FILENO)) {
    return ReportFailure(
        name, "it cannot read standard input, because it runs in the pod of " + config->plugin +
                  ": give it a file below the kubelet's folder, or use </dev/null if it needs no "
                  "input");
  }
  const auto reply = ipc::Call(config->socket,
                               ipc::Message()
                                   .Set(ipc::kMethod, std::string(utility::kRun))
                                   .Set(utility::kPlugin, config->plugin)
                                   .Set(utility::kArguments, arguments)
                                   .Set(utility::kEnvironment, environment)
                                   .Set(utility::kFolder, ReadWorkingFolder()),
                               ipc::DeadlineIn(utility::TimeLimitOf(name) + kAround));
  if (!reply.ok()) return ReportFailure(name, ExplainFailure(reply.failure(), *config));
  const auto code = reply->FindNumber(utility::kExit);
  if (!code) return ReportFailure(name, "Berth's node agent answered without an exit code");
  if (const std::string* out = reply->FindText(utility::kOut)) WriteText(STDOUT_FILENO, *out);
  if (const std::string* err = reply->FindText(utility::kErr)) WriteText(STDERR_FILENO, *err);
  if (HoldsInput(STDIN_FILENO)) {
    WriteText(STDERR_FILENO, name + ": what came on standard input meanwhile was not read\n");
  }
  return static_cast<int>(*code);
}

}  // namespace berth::shim
