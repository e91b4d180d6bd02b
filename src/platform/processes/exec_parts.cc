#include "platform/processes/exec_parts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"

namespace berth::platform {
namespace {

constexpr size_t kMaxSecret = 1 << 20;
constexpr size_t kLargestPipe = 1 << 20;  // /proc/sys/fs/pipe-max-size, unless root raises it

std::string GetProgramName(const Command& command) {
  return std::string(base::FileNameOf(command.argv[0]));
}

std::string FindLastPath(const Command& command) {
  for (size_t i = command.argv.size() - 1; i > 0; --i) {
    if (command.argv[i].starts_with('/')) return command.argv[i];
  }
  return "";
}

}  // namespace

base::StatusOr<std::vector<std::string>> BuildArgv(
    const Command& command,
    const std::function<base::StatusOr<std::string>(const std::string& content)>& place) {
  std::vector<std::string> argv = command.argv;
  for (const Secret& secret : command.secrets) {
    if (secret.content.size() > kMaxSecret) {
      return base::Error(base::StatusCode::kInvalidArgument, "a secret has more than {} bytes",
                         kMaxSecret);
    }
    ASSIGN_OR_RETURN(const std::string path, place(secret.content));
    const std::string mark = fmt::format("{{{}}}", secret.name);
    for (std::string& argument : argv) {
      for (size_t at = 0; (at = argument.find(mark, at)) != std::string::npos; at += path.size()) {
        argument.replace(at, mark.size(), path);
      }
    }
  }
  return argv;
}

bool DrainPipe(int fd, std::string& kept, size_t limit) {
  std::array<char, 16384> buffer;
  for (size_t done = 0; done < kLargestPipe;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    kept.append(buffer.data(), std::min(static_cast<size_t>(n), limit - kept.size()));
    done += static_cast<size_t>(n);
  }
  return true;
}

RunSpan::RunSpan(const Command& command)
    : span_(base::FlightKind::kProcess, GetProgramName(command), FindLastPath(command)) {}

void RunSpan::End(const base::StatusOr<CommandResult>& result) {
  if (!result.ok() || result->exit_code == 0) return span_.End(result.status());
  span_.End(base::Error(base::StatusCode::kUnknown, "exited with {}", result->exit_code));
}

}  // namespace berth::platform
