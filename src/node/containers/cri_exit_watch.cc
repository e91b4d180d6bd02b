#include "node/containers/cri_exit_watch.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <array>

#include "base/log.h"
#include "platform/errno.h"

namespace berth::node {

base::Status ExitWatch::Start(OnExit on_exit) {
  on_exit_ = std::move(on_exit);
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return platform::ErrnoError(errno, "watch processes: epoll_create1");
  stop_event_.Reset(eventfd(0, EFD_CLOEXEC));
  if (!stop_event_.valid()) return platform::ErrnoError(errno, "watch processes: eventfd");
  epoll_event event{.events = EPOLLIN, .data = {.fd = stop_event_.get()}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_event_.get(), &event) != 0) {
    return platform::ErrnoError(errno, "watch processes: epoll_ctl");
  }
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "exit-watch");
    Loop();
  });
  return base::OkStatus();
}

void ExitWatch::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  if (write(stop_event_.get(), &one, sizeof(one)) != sizeof(one)) {
    LOG_ERROR("stop watching processes: write to eventfd failed");
  }
  thread_.join();
}

void ExitWatch::WatchProcess(const std::string& key, pid_t pid) {
  if (!epoll_.valid()) return;
  {
    base::MutexLock lock(mutex_);
    if (watched_.contains(key)) return;
    // glibc 2.36 has pidfd_open, but not in a header that C++ can include beside <signal.h>'s.
    base::UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (fd.valid()) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = fd.get()}};
      if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return;
      keys_[fd.get()] = key;
      watched_[key] = std::move(fd);
      return;
    }
    // There are no free descriptors, or the kernel is old. Listing finds the exit later.
    if (errno != ESRCH) return;
  }
  on_exit_(key);
}

void ExitWatch::Loop() {
  std::array<epoll_event, 16> events;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    if (count < 0 && errno != EINTR) {
      LOG_ERROR("watch processes: epoll_wait failed with {}", errno);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_event_.get()) return;
      std::string key;
      {
        base::MutexLock lock(mutex_);
        const auto it = keys_.find(fd);
        if (it == keys_.end()) continue;
        key = it->second;
        keys_.erase(it);
        watched_.erase(key);  // closes the descriptor, which leaves the epoll set
      }
      on_exit_(key);
    }
  }
}

}  // namespace berth::node
