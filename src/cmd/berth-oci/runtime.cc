#include "cmd/berth-oci/runtime.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

namespace berth::oci {

namespace ipc = base::ipc;

namespace {

constexpr std::string_view kUsualPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool IsUsable(const std::string& file) {
  struct stat self{}, other{};
  if (stat(file.c_str(), &other) != 0 || !S_ISREG(other.st_mode) ||
      access(file.c_str(), X_OK) != 0) {
    return false;
  }
  return stat("/proc/self/exe", &self) != 0 || self.st_dev != other.st_dev ||
         self.st_ino != other.st_ino;
}

}  // namespace

ipc::Result<std::string> FindRuntime(const std::string& runtime) {
  if (runtime.find('/') != std::string::npos) {
    if (IsUsable(runtime)) return runtime;
    return ipc::Failure{ipc::Problem::kSystem, "the runtime '" + runtime + "' cannot be run"};
  }
  const char* variable = getenv("PATH");
  std::string_view path = variable != nullptr ? variable : kUsualPath;
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const std::string file = std::string(path.substr(0, end)) + "/" + runtime;
    path.remove_prefix(std::min(end + 1, path.size()));
    if (file.front() == '/' && IsUsable(file)) return file;
  }
  return ipc::Failure{ipc::Problem::kSystem, "there is no runtime '" + runtime + "' along PATH"};
}

ipc::Failure BecomeRuntime(const std::string& file, const std::vector<std::string>& argv) {
  std::vector<char*> arguments = {const_cast<char*>(file.c_str())};
  for (size_t i = 1; i < argv.size(); ++i) arguments.push_back(const_cast<char*>(argv[i].c_str()));
  arguments.push_back(nullptr);
  execv(file.c_str(), arguments.data());
  return ipc::SystemFailure("run '" + file + "'", errno);
}

ipc::Result<int> RunRuntime(const std::string& file, const std::vector<std::string>& argv) {
  const pid_t child = fork();
  if (child < 0) return ipc::SystemFailure("fork", errno);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)BecomeRuntime(file, argv);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ipc::SystemFailure("wait for the runtime", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace berth::oci
