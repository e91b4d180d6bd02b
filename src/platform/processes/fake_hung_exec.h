// A process that waits for ever for a FUSE server that does not answer, and keeps everybody from
// reading its /proc/PID (process_walk.h); for tests that run as root.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <thread>

#include "base/files/whole_file.h"
#include "base/unique_fd.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/processes/child.h"

namespace berth::platform {

class HungExec {
 public:
  // The process never ends one of these calls with a file of that server. It closes the file in
  // execve, so that most of its /proc/PID cannot be read, or it adds the file to the epoll
  // descriptor `kEpoll`, whose fdinfo cannot be read then.
  static void CloseInExec(int /*file*/) { execl("/bin/sleep", "sleep", "600", nullptr); }
  static void AddToEpoll(int file) {
    epoll_event event = {.events = EPOLLIN, .data = {}};
    epoll_ctl(dup2(epoll_create1(EPOLL_CLOEXEC), kEpoll), EPOLL_CTL_ADD, file, &event);
  }
  static constexpr int kEpoll = 200;

  // Starts the process. It waits until this object is destroyed, but at most for a minute. After
  // the minute `released` is true, which shows that the tested code waited for the process.
  // `cgroup` is the folder of the process's cgroup; "": the cgroup of the caller.
  // `parent_variable` is "NAME=value". If it is set, the process is a child of `parent()`, which
  // only waits and has this variable in its environment; "": the process is a child of the caller.
  static base::StatusOr<std::unique_ptr<HungExec>> Start(const std::string& cgroup = "",
                                                         const std::string& parent_variable = "",
                                                         void (*wait)(int file) = CloseInExec) {
    auto hung = std::unique_ptr<HungExec>(new HungExec);
    const std::string file = hung->folder_ / "file", members = cgroup + "/cgroup.procs";
    if (!base::UniqueFd(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).valid()) {
      return ErrnoError(errno, "make a file");
    }
    ASSIGN_OR_RETURN(hung->mount_, LostMount::MakeFile(file));
    RETURN_IF_ERROR(hung->mount_->Greet());
    const int server = hung->mount_->server();
    int numbers[2];
    if (pipe2(numbers, O_CLOEXEC) != 0) return ErrnoError(errno, "make a pipe");
    const base::UniqueFd number(numbers[0]);
    base::UniqueFd tell(numbers[1]);
    const std::span<char> environment = FindEnvironment();
    hung->pid_ = fork();
    if (hung->pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!parent_variable.empty()) BecomeParent(parent_variable, environment, server, tell.get());
      prctl(PR_SET_NAME, "hung-exec");
      close(server);
      if (!cgroup.empty()) {
        const int group = open(members.c_str(), O_WRONLY | O_CLOEXEC);
        if (write(group, "0", 1) != 1) _exit(1);
      }
      const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
      if (opened >= 0) wait(opened);
      _exit(1);
    }
    if (!parent_variable.empty()) {
      tell.Reset();
      hung->parent_ = hung->pid_;
      hung->pid_ = 0;
      if (read(number.get(), &hung->pid_, sizeof(pid_t)) != sizeof(pid_t)) {
        return base::Error(base::StatusCode::kInternal, "the parent cannot be made");
      }
    }
    // The process asks the server to flush the file, or whether the file can be read.
    if (!hung->mount_->AnswerOpen() || !hung->mount_->TakeRequest()) {
      return base::Error(base::StatusCode::kInternal, "the process does not wait");
    }
    hung->guard_ =
        std::jthread([&hung = *hung](const std::stop_token& stop) { hung.ReleaseInTime(stop); });
    return hung;
  }
  ~HungExec() {
    if (guard_.joinable()) {
      guard_.request_stop();
      if (write(stopped_.get(), "", 1) != 1) std::abort();
      guard_.join();
    }
    if (mount_ != nullptr) mount_->Die();
    // The process ends with its parent (PR_SET_PDEATHSIG).
    const pid_t child = parent_ > 0 ? parent_ : pid_;
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  HungExec(const HungExec&) = delete;
  HungExec& operator=(const HungExec&) = delete;

  pid_t pid() const { return pid_; }
  pid_t parent() const { return parent_; }
  bool released() const { return released_; }

 private:
  HungExec() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    wait_ = base::UniqueFd(ends[0]);
    stopped_ = base::UniqueFd(ends[1]);
  }

  // Returns the memory in which the kernel put this process's environment, which /proc/PID/environ
  // shows; proc(5).
  static std::span<char> FindEnvironment() {
    std::string text;
    base::ReadWholeFile("/proc/self/stat", 4096, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    unsigned long begin = 0, end = 0;
    for (int field = 3; field < 50; ++field) fields >> skipped;
    fields >> begin >> end;
    return {reinterpret_cast<char*>(begin), end - begin};
  }

  // Forks, and returns only in the child. The calling process waits for ever, and its environment
  // is `variable`.
  static void BecomeParent(const std::string& variable, std::span<char> environment, int server,
                           int tell) {
    if (environment.size() <= variable.size()) _exit(1);
    std::ranges::fill(environment, '\0');
    std::ranges::copy(variable, environment.begin());
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      return;
    }
    close(server);
    if (write(tell, &child, sizeof(child)) != sizeof(child)) _exit(1);
    for (;;) pause();
  }

  void ReleaseInTime(const std::stop_token& stop) {
    pollfd stopped = {.fd = wait_.get(), .events = POLLIN, .revents = 0};
    if (poll(&stopped, 1, 60'000) != 0 || stop.stop_requested()) return;
    released_ = true;
    mount_->Die();
  }

  const TempFolder folder_;
  base::UniqueFd wait_, stopped_;
  std::unique_ptr<LostMount> mount_;
  pid_t pid_ = 0, parent_ = 0;
  std::atomic<bool> released_ = false;
  std::jthread guard_;
};

}  // namespace berth::platform
