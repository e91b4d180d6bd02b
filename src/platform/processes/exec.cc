#include "platform/processes/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/processes/child.h"
#include "platform/processes/error_lines.h"
#include "platform/processes/exec_parts.h"
#include "platform/processes/process_info.h"

namespace berth::platform {
namespace {

constexpr std::string_view kPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::chrono::seconds kKillGrace(2);
// From SIGTERM to SIGKILL. With kKillGrace it leaves a role half of the time that its end may take
// (cmd/berth/signals.h).
constexpr std::chrono::seconds kEndGrace(3);

using Deadline = std::chrono::steady_clock::time_point;

std::vector<std::string> BuildEnvironment(const Command& command) {
  std::vector<std::string> env = {std::string(kPath), "LC_ALL=C"};
  for (const std::string& variable : command.env) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(env, [&](const std::string& old) { return old.starts_with(name); });
    env.push_back(variable);
  }
  return env;
}

// The program's path: argv[0] itself if it holds a '/', else the first match in `env`'s PATH.
base::StatusOr<std::string> FindProgram(const std::string& name,
                                        const std::vector<std::string>& env) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& variable : env) {
    if (!variable.starts_with("PATH=")) continue;
    for (size_t at = 5; at <= variable.size();) {
      const size_t end = std::min(variable.find(':', at), variable.size());
      std::string path = fmt::format("{}/{}", variable.substr(at, end - at), name);
      if (!name.empty() && access(path.c_str(), X_OK) == 0) return path;
      at = end + 1;
    }
  }
  return base::Error(base::StatusCode::kNotFound, "program '{}' is not in the PATH", name);
}

// Makes a file in memory, which is on no disk and has no name.
base::StatusOr<base::UniqueFd> MakeMemoryFile(const char* name, const std::string& data) {
  base::UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "memfd_create");
  if (fchmod(fd.get(), 0600) != 0) return ErrnoError(errno, "fchmod");
  if (const int error = base::WriteAll(fd.get(), data); error != 0) {
    return ErrnoError(error, fmt::format("write {}", name));
  }
  if (lseek(fd.get(), 0, SEEK_SET) != 0) return ErrnoError(errno, fmt::format("seek {}", name));
  return fd;
}

std::vector<char*> ToPointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

base::StatusOr<pid_t> Spawn(const std::string& program, const std::vector<std::string>& argv,
                            const std::vector<std::string>& env, int in, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                ToPointers(argv).data(), ToPointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError(error, fmt::format("run {}", base::Quote(program)));
  return pid;
}

// One output stream, which is closed at the end of the file.
struct Stream {
  base::UniqueFd fd;
  std::string* kept;
  size_t limit;
  LinePasser* lines = nullptr;  // gets what the stream gives; null: nobody listens

  void Drain() {
    if (fd.valid() && !DrainPipe(fd.get(), *kept, limit)) fd.Reset();
    if (lines != nullptr) lines->PassLines(*kept);
  }
};

enum class Collected { kEnded, kLate, kEnding };

// Waits until the process has ended, or `ending_fd` (-1: none) is readable. It does not wait for
// output that the process's own children still hold open, because a mount helper may leave a FUSE
// daemon behind.
Collected CollectOutput(int pidfd, Stream& out, Stream& err, Deadline deadline,
                        int ending_fd = -1) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Collected::kLate;
    std::array<pollfd, 4> fds = {{{.fd = pidfd, .events = POLLIN, .revents = 0},
                                  {.fd = out.fd.get(), .events = POLLIN, .revents = 0},
                                  {.fd = err.fd.get(), .events = POLLIN, .revents = 0},
                                  {.fd = ending_fd, .events = POLLIN, .revents = 0}}};
    const int n =
        poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(left.count(), 1 << 30)));
    if (n < 0 && errno != EINTR) return Collected::kLate;
    if (n <= 0) continue;
    if (fds[1].revents != 0) out.Drain();
    if (fds[2].revents != 0) err.Drain();
    if (fds[0].revents != 0) {
      out.Drain();
      err.Drain();
      return Collected::kEnded;
    }
    if (fds[3].revents != 0) return Collected::kEnding;
  }
}

int ToExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Whether a process is in the group besides its leader. It asks nothing of /proc/PID, which could
// block for ever (process_walk.h).
bool HasFollowers(pid_t leader) {
  return std::ranges::any_of(ListNumbers("/proc"), [leader](pid_t pid) {
    return pid != leader && getpgid(pid) == leader;
  });
}

base::Status KilledError(const Command& command, Collected why) {
  if (why == Collected::kEnding) {
    return base::Error(base::StatusCode::kCancelled, "{} was ended, because its caller is to end",
                       command.argv[0]);
  }
  return base::Error(base::StatusCode::kDeadlineExceeded,
                     "{} did not end within {} ms and was killed", command.argv[0],
                     command.timeout.count());
}

class HostExec : public Exec {
 public:
  base::StatusOr<CommandResult> Run(const Command& command) override {
    if (command.argv.empty()) {
      return base::Error(base::StatusCode::kInvalidArgument, "run: no program given");
    }
    if (command.ending.stop_requested()) {
      return base::Error(base::StatusCode::kCancelled,
                         "{} was not run, because its caller is to end", command.argv[0]);
    }
    const std::vector<std::string> env = BuildEnvironment(command);
    ASSIGN_OR_RETURN(const std::string program, FindProgram(command.argv[0], env));
    ASSIGN_OR_RETURN(base::UniqueFd in, MakeMemoryFile("standard input", command.stdin_data));
    // The program reads the secrets through this process's descriptors.
    std::vector<base::UniqueFd> secrets;
    const auto place = [&secrets](const std::string& content) -> base::StatusOr<std::string> {
      ASSIGN_OR_RETURN(secrets.emplace_back(), MakeMemoryFile("a secret", content));
      return fmt::format("/proc/{}/fd/{}", getpid(), secrets.back().get());
    };
    ASSIGN_OR_RETURN(const std::vector<std::string> argv, BuildArgv(command, place));
    const bool endable = command.ending.stop_possible();
    const base::UniqueFd ending(endable ? eventfd(0, EFD_CLOEXEC) : -1);
    if (endable && !ending.valid()) return ErrnoError(errno, "eventfd");
    const std::stop_callback end(command.ending, [&ending] { eventfd_write(ending.get(), 1); });
    int out_ends[2], err_ends[2];
    if (pipe2(out_ends, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
    base::UniqueFd out_read(out_ends[0]), out_write(out_ends[1]);
    if (pipe2(err_ends, O_CLOEXEC) != 0) return ErrnoError(errno, "pipe");
    base::UniqueFd err_read(err_ends[0]), err_write(err_ends[1]);
    fcntl(out_read.get(), F_SETFL, O_NONBLOCK);
    fcntl(err_read.get(), F_SETFL, O_NONBLOCK);

    RunSpan span(command);
    const Deadline deadline = std::chrono::steady_clock::now() + command.timeout;
    ASSIGN_OR_RETURN(const pid_t pid,
                     Spawn(program, argv, env, in.get(), out_write.get(), err_write.get()));
    out_write.Reset();
    err_write.Reset();
    span.SetPid(pid);
    const base::UniqueFd pidfd = OpenPid(pid);
    CommandResult result;
    Stream out{std::move(out_read), &result.out, command.max_output};
    LinePasser lines;
    Stream err{std::move(err_read), &result.err, command.max_output, &lines};
    const Collected collected = pidfd.valid()
                                    ? CollectOutput(pidfd.get(), out, err, deadline, ending.get())
                                    : Collected::kLate;
    if (collected != Collected::kEnded) {
      if (collected == Collected::kEnding) AskGroupToEnd(pid, pidfd.get(), out, err);
      KillGroup(pid, pidfd.get());
      const base::Status killed = KilledError(command, collected);
      span.End(killed);
      return killed;
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = ToExitCode(status);
    span.End(result);
    return result;
  }

 private:
  // Sends the group SIGTERM, and waits at most kEndGrace until none of it lives. Its output is read
  // meanwhile, because a program may have to write before it can end.
  static void AskGroupToEnd(pid_t pid, int pidfd, Stream& out, Stream& err) {
    constexpr std::chrono::milliseconds kPause(10);
    const Deadline grace = std::chrono::steady_clock::now() + kEndGrace;
    kill(-pid, SIGTERM);
    if (CollectOutput(pidfd, out, err, grace) != Collected::kEnded) return;
    // The leader is not reaped yet, so that no other group can have its number.
    while (std::chrono::steady_clock::now() < grace && HasFollowers(pid)) {
      poll(nullptr, 0, kPause.count());
    }
  }

  // The leader is reaped only after its group was killed, so the group's id cannot have been
  // reused.
  static void KillGroup(pid_t pid, int pidfd) {
    kill(-pid, SIGKILL);
    std::string ignored;
    Stream none{base::UniqueFd(), &ignored, 0};
    const Deadline grace = std::chrono::steady_clock::now() + kKillGrace;
    if (pidfd >= 0 && CollectOutput(pidfd, none, none, grace) == Collected::kEnded) {
      waitpid(pid, nullptr, 0);
    } else {
      ReapLater(pid);
    }
  }
};

}  // namespace

std::unique_ptr<Exec> NewHostExec() { return std::make_unique<HostExec>(); }

base::Status ExitFailure(const Command& command, const CommandResult& result) {
  constexpr size_t kQuoted = 1024;
  std::string_view text = result.err;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) text = result.out;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() > kQuoted) text.remove_prefix(text.size() - kQuoted);
  return base::Error(base::StatusCode::kInternal, "{} exited with {}: {}", command.argv[0],
                     result.exit_code, text.empty() ? "no output" : text);
}

base::StatusOr<std::string> RunOk(Exec& exec, const Command& command) {
  ASSIGN_OR_RETURN(CommandResult result, exec.Run(command));
  if (result.exit_code != 0) return ExitFailure(command, result);
  return std::move(result.out);
}

}  // namespace berth::platform
