#include "cmd/berth-init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace berth::init {

using base::UniqueFd;
using base::ipc::Result;
using base::ipc::SystemFailure;

Result<pid_t> StartChild(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemFailure("make a pipe", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return SystemFailure("fork", errno);
  if (pid == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(write_end.get(), &error, sizeof(error));
    _exit(127);
  }
  write_end.Reset();
  // If the program can be run, exec closes the pipe, and nothing is read.
  int error = 0;
  ssize_t count = 0;
  while ((count = read(read_end.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (count != sizeof(error)) return pid;
  waitpid(pid, nullptr, 0);
  return SystemFailure("run '" + command.front() + "'", error);
}

int ToExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace berth::init
