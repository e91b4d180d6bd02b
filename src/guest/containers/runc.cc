#include "guest/containers/runc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/whole_file.h"
#include "base/ipc/message.h"

namespace berth::guest {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Failure;
using ipc::Problem;
using ipc::Result;

namespace {

constexpr size_t kLargestLog = 64 * 1024;

int MillisecondsUntil(ipc::Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
}

// Waits until `fd` is readable or has ended. False: the deadline has passed.
bool WaitReadable(int fd, ipc::Deadline deadline) {
  pollfd polled = {.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const int n = poll(&polled, 1, MillisecondsUntil(deadline));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) return false;
  }
}

// Waits for the end of a child. Kills it at the deadline.
Result<int> WaitForChild(pid_t pid, ipc::Deadline deadline) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const bool ended = process.valid() && WaitReadable(process.get(), deadline);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ipc::SystemFailure("wait for runc", errno);
  }
  if (!ended) return Failure{Problem::kTimeout, "runc did not end in time", ""};
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string FindLastError(std::string_view log) {
  std::string found;
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const auto line = ipc::ReadJson(log.substr(0, end));
    if (line.ok()) {
      const std::string* level = line->FindText("level");
      const std::string* message = line->FindText("msg");
      if (level != nullptr && message != nullptr && (*level == "error" || *level == "fatal")) {
        found = *message;
      }
    }
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return found;
}

Result<pid_t> Runc::Spawn(const std::vector<std::string>& arguments, const std::string& log,
                          StandardFds fds) const {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return ipc::SystemFailure("open '/dev/null'", errno);
  std::vector<std::string> words = {options_.program, "--root", options_.root, "--log", log,
                                    "--log-format",   "json"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  char* environment[] = {path, nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int given[] = {fds.input, fds.output, fds.errors};
  for (int i = 0; i < 3; ++i) {
    posix_spawn_file_actions_adddup2(&actions, given[i] >= 0 ? given[i] : null.get(), i);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, options_.program.c_str(), &actions, &attributes, argv.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ipc::SystemFailure("run '" + options_.program + "'", error);
  return pid;
}

Failure Runc::Run(const std::vector<std::string>& arguments, const std::string& log,
                  StandardFds fds, ipc::Deadline deadline) const {
  if (truncate(log.c_str(), 0) != 0 && errno != ENOENT) {  // an earlier run's errors
    return ipc::SystemFailure("empty '" + log + "'", errno);
  }
  const Result<pid_t> pid = Spawn(arguments, log, fds);
  if (!pid.ok()) return pid.failure();
  const Result<int> code = WaitForChild(*pid, deadline);
  if (!code.ok()) return code.failure();
  if (*code == 0) return ipc::Ok();
  std::string text;
  static_cast<void>(base::ReadWholeFile(log, kLargestLog, text));
  const std::string error = FindLastError(text);
  return {Problem::kRefused,
          "runc " + arguments.front() + ": " +
              (error.empty() ? "exit code " + std::to_string(*code) : error),
          ""};
}

Result<std::string> Runc::Ask(const std::vector<std::string>& arguments, const std::string& log,
                              std::string_view input, ipc::Deadline deadline) const {
  if (input.size() > kLargestInput) {
    return Failure{Problem::kTooLarge, "the input of runc " + arguments.front() + " is too long",
                   ""};
  }
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return ipc::SystemFailure("make a pipe", errno);
  const UniqueFd in_read(in[0]);
  UniqueFd in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return ipc::SystemFailure("make a pipe", errno);
  const UniqueFd out_read(out[0]);
  UniqueFd out_write(out[1]);
  fcntl(out_write.get(), F_SETPIPE_SZ, static_cast<int>(kLargestOutput));
  if (const int error = base::WriteAll(in_write.get(), input); error != 0) {
    return ipc::SystemFailure("write the input of runc", error);
  }
  in_write.Reset();
  // The pipe takes all of the output, so it can be read afterwards.
  const StandardFds fds = {.input = in_read.get(), .output = out_write.get(), .errors = -1};
  const Failure ran = Run(arguments, log, fds, deadline);
  out_write.Reset();
  if (!ran.ok()) return ran;
  std::string output;
  if (const int error = base::ReadAll(out_read.get(), kLargestOutput, output); error != 0) {
    return ipc::SystemFailure("read the output of runc " + arguments.front(), error);
  }
  return output;
}

Result<ConsoleSocket> ConsoleSocket::Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Failure{Problem::kTooLarge, "the path of a console socket is too long: '" + path + "'",
                   ""};
  }
  memcpy(address.sun_path, path.data(), path.size());
  ConsoleSocket socket;
  socket.listener_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.listener_.valid()) return ipc::SystemFailure("make a console socket", errno);
  if (bind(socket.listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0 ||
      listen(socket.listener_.get(), 1) != 0) {
    return ipc::SystemFailure("listen at '" + path + "'", errno);
  }
  socket.path_ = path;
  return socket;
}

ConsoleSocket::~ConsoleSocket() {
  if (listener_.valid()) unlink(path_.c_str());
}

Result<UniqueFd> ConsoleSocket::Receive(ipc::Deadline deadline) {
  if (!WaitReadable(listener_.get(), deadline)) {
    return Failure{Problem::kTimeout, "runc gave no terminal", ""};
  }
  const UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) return ipc::SystemFailure("accept runc's terminal", errno);
  if (!WaitReadable(connection.get(), deadline)) {
    return Failure{Problem::kTimeout, "runc gave no terminal", ""};
  }
  char name[4096];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec data = {.iov_base = name, .iov_len = sizeof(name)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC) < 0) {
    return ipc::SystemFailure("receive runc's terminal", errno);
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Failure{Problem::kBroken, "runc sent no terminal", ""};
  }
  int master = -1;
  memcpy(&master, CMSG_DATA(header), sizeof(master));
  return UniqueFd(master);
}

}  // namespace berth::guest
