#include "platform/processes/supervised_process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/pause.h"
#include "base/unique_fd.h"

namespace berth::platform {

using std::chrono::steady_clock;

SupervisedProcess::SupervisedProcess(Options options) : options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "supervisor");
    SuperviseChild(stop);
  });
}

SupervisedProcess::~SupervisedProcess() {
  thread_.request_stop();
  thread_.join();
}

void SupervisedProcess::SuperviseChild(const std::stop_token& stop) {
  auto pause = options_.restart_start;
  while (!stop.stop_requested()) {
    const auto started = steady_clock::now();
    const std::string end = RunOnce(stop);
    if (stop.stop_requested()) return;
    if (steady_clock::now() - started > std::chrono::seconds(10)) pause = options_.restart_start;
    LOG_WARNING("{} {}; it is started again in {} ms", options_.name, end, pause.count());
    base::SleepFor(stop, pause);
    pause = std::min(pause * 2, options_.restart_max);
  }
}

std::string SupervisedProcess::RunOnce(const std::stop_token& stop) {
  std::vector<char*> argv;
  for (const std::string& word : options_.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return fmt::format("could not be started: {}", std::strerror(errno));
  if (pid == 0) {
    // Only async-signal-safe calls may follow. The kernel sends the signal when the thread that
    // forked ends. That is the thread of the SupervisedProcess, which lives as long as the object.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent ended before the call
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    syscall(SYS_close_range, 3U, ~0U, 0U);
    execv(argv[0], argv.data());
    _exit(127);
  }
  LOG_INFO("{} runs as process {}", options_.name, pid);
  const base::UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)));
  auto kill_at = steady_clock::time_point::max();
  int status = 0;
  while (true) {
    // Without a handle, as when descriptors are exhausted, the poll is a pause of 100 ms.
    pollfd ended = {handle.get(), POLLIN, 0};
    poll(&ended, 1, 100);
    if (waitpid(pid, &status, WNOHANG) == pid) break;
    if (!stop.stop_requested()) continue;
    if (kill_at == steady_clock::time_point::max()) {
      kill(pid, SIGTERM);
      kill_at = steady_clock::now() + options_.stop_timeout;
    } else if (steady_clock::now() > kill_at) {
      kill(pid, SIGKILL);
    }
  }
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace berth::platform
