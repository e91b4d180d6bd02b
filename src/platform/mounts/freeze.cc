#include "platform/mounts/freeze.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/fault.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;
using base::UniqueFd;

constexpr std::chrono::seconds kThawTimeout(10);
constexpr int kLimitPassed = -1;

struct KeeperPlan {
  const char* mount_point;
  int commands;  // a byte or end of file: thaw
  int answers;   // an errno after the freeze, then one after the thaw, or kLimitPassed
  int limit_ms;
};

void WriteAnswer(int fd, int value) {
  // An error is ignored, because it means that the parent has died.
  if (write(fd, &value, sizeof(value)) < 0) return;
}

// The child's program. It makes only async-signal-safe calls; all signals are blocked, so that only
// SIGKILL stops it.
[[noreturn]] void RunKeeper(const KeeperPlan& plan) {
  // The child leaves the group that a terminal's Ctrl-C or a supervisor's kill reaches.
  setsid();
  // The child closes all other descriptors, because they could keep a lock held, or a pipe or a
  // device open.
  CloseAllBut(std::array{plan.commands, plan.answers});
  const int fd = open(plan.mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ioctl(fd, FIFREEZE, 0) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);  // before the answer, as below
    WriteAnswer(plan.answers, error);
    _exit(1);
  }
  WriteAnswer(plan.answers, 0);
  pollfd wait = {.fd = plan.commands, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&wait, 1, plan.limit_ms);
  } while (ready < 0 && errno == EINTR);
  const int error = ioctl(fd, FITHAW, 0) == 0 ? 0 : errno;
  // It is closed before the answer, because the caller may unmount after that.
  close(fd);
  WriteAnswer(plan.answers, ready > 0 ? error : kLimitPassed);
  _exit(0);
}

// The child's next answer; nullopt: it died or `timeout` passed.
std::optional<int> ReadAnswer(int fd, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
    const int n = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {};
    int value = 0;
    if (read(fd, &value, sizeof(value)) != sizeof(value)) return {};
    return value;
  }
}

class KeptFrozen : public FrozenFileSystem {
 public:
  KeptFrozen(std::string mount_point, pid_t keeper, UniqueFd commands, UniqueFd answers)
      : mount_point_(std::move(mount_point)),
        keeper_(keeper),
        commands_(std::move(commands)),
        answers_(std::move(answers)) {}

  ~KeptFrozen() override {
    if (const base::Status status = Thaw(); !status.ok()) LOG_WARNING("{}", base::ToString(status));
  }

  base::Status Thaw() override {
    if (!commands_.valid()) return base::OkStatus();
    const std::string what = fmt::format("thaw {}", Quote(mount_point_));
    // A byte is sent as well, because another child of this process may hold a copy of the pipe's
    // end.
    const char byte = 't';
    sigset_t pipe_signal, before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    if (write(commands_.get(), &byte, 1) < 0 && errno == EPIPE) {
      // Clears the SIGPIPE that this raised for the thread.
      const timespec now = {};
      sigtimedwait(&pipe_signal, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    commands_.Reset();
    const std::optional<int> answer = ReadAnswer(answers_.get(), kThawTimeout);
    ReapLater(keeper_);
    if (!answer) {
      // The child was killed from outside, or is stuck.
      RETURN_IF_ERROR(ThawFileSystem(mount_point_));
      return base::Error(StatusCode::kInternal, "{}: the process that kept it frozen is gone",
                         what);
    }
    if (*answer == kLimitPassed) {
      return base::Error(StatusCode::kDeadlineExceeded,
                         "{}: the time for which it may be frozen had passed", what);
    }
    if (*answer != 0) return ErrnoError(*answer, what);
    return base::FaultPoint<"platform.thaw.after">();
  }

 private:
  const std::string mount_point_;
  const pid_t keeper_;
  UniqueFd commands_;
  const UniqueFd answers_;
};

}  // namespace

base::StatusOr<std::unique_ptr<FrozenFileSystem>> FreezeFileSystem(
    const std::string& mount_point, std::chrono::milliseconds limit) {
  const std::string what = fmt::format("freeze {}", Quote(mount_point));
  RETURN_IF_ERROR(base::FaultPoint<"platform.freeze.before">());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, what);
  UniqueFd commands_in(ends[0]), commands_out(ends[1]);
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, what);
  UniqueFd answers_in(ends[0]), answers_out(ends[1]);

  const KeeperPlan plan = {mount_point.c_str(), commands_in.get(), answers_out.get(),
                           static_cast<int>(std::clamp<int64_t>(limit.count(), 1, 1 << 30))};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = _Fork();
  if (pid == 0) RunKeeper(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoError(fork_error, what);
  commands_in.Reset();
  answers_out.Reset();

  const std::optional<int> answer = ReadAnswer(answers_in.get(), limit);
  if (answer && *answer == 0) {
    std::unique_ptr<FrozenFileSystem> frozen = std::make_unique<KeptFrozen>(
        mount_point, pid, std::move(commands_out), std::move(answers_in));
    RETURN_IF_ERROR(base::FaultPoint<"platform.freeze.after">());
    return frozen;
  }
  // The child is not killed, because it must thaw as soon as the kernel lets it go. The closed pipe
  // is its command to thaw. Until it has done so, the mount is busy and cannot be unmounted.
  commands_out.Reset();
  if (!answer && ReadAnswer(answers_in.get(), kThawTimeout) == 0) {
    ReadAnswer(answers_in.get(), kThawTimeout);
  }
  ReapLater(pid);
  if (answer) return ErrnoError(*answer, what);
  return base::Error(StatusCode::kDeadlineExceeded, "{}: it did not come to rest within {} ms",
                     what, limit.count());
}

base::Status ThawFileSystem(const std::string& mount_point) {
  return RunInChild(fmt::format("thaw {}", Quote(mount_point)), kThawTimeout, [mount_point] {
    const int fd = open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    // EINVAL: not frozen.
    return ioctl(fd, FITHAW, 0) == 0 || errno == EINVAL ? 0 : errno;
  });
}

}  // namespace berth::platform
