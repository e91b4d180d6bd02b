#include "platform/processes/process_end.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/log.h"
#include "platform/processes/process_walk.h"

namespace berth::platform {
namespace {

// <linux/pidfd.h> of Linux 6.15; Debian 12's headers are older.
struct PidfdInfo {
  uint64_t mask = 0;
  uint64_t cgroup = 0;
  std::array<uint32_t, 11> ids{};
  int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kExit = 1 << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

std::optional<int> ReadWaitStatus(pid_t pid, int pidfd) {
  PidfdInfo info{.mask = kExit};
  if (ioctl(pidfd, kGetInfo, &info) == 0 && (info.mask & kExit) != 0) return info.exit_code;
  // /proc/PID/stat has the status of a process that its parent has not reaped.
  const auto stat = ReadForeignStat(pid);
  if (stat.ok() && stat->exit_code.has_value()) return stat->exit_code;
  // The parent may have reaped it between the two reads.
  info = {.mask = kExit};
  if (ioctl(pidfd, kGetInfo, &info) == 0 && (info.mask & kExit) != 0) return info.exit_code;
  return std::nullopt;
}

std::string DescribeEnd(std::optional<int> wait_status) {
  if (!wait_status.has_value()) return "ended (how is not known)";
  if (WIFEXITED(*wait_status)) {
    return fmt::format("exited with status {}", WEXITSTATUS(*wait_status));
  }
  const int signal = WTERMSIG(*wait_status);
  const char* name = sigabbrev_np(signal);
  return fmt::format("was killed by signal {}{}", signal,
                     name == nullptr ? "" : fmt::format(" (SIG{})", name));
}

}  // namespace berth::platform
