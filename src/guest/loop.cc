#include "guest/loop.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace berth::guest {
namespace {

sigset_t WatchedSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGIO);
  return watched;
}

}  // namespace

Loop::Loop() {
  const sigset_t watched = WatchedSignals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signals_ = base::UniqueFd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Loop::ResetSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

void Loop::Watch(int fd, short events, std::function<void(short)> ready) {
  watches_[fd] = std::make_shared<Entry>(Entry{.events = events, .ready = std::move(ready)});
}

void Loop::ReadSignals() {
  signalfd_siginfo info;
  bool changed = false;
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGIO) changed = true;
  }
  ReapChildren();
  if (changed && sigio_) sigio_();
}

void Loop::ReapChildren() {
  while (true) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child <= 0) return;
    const auto found = children_.find(child);
    if (found == children_.end()) continue;
    const auto ended = std::move(found->second);
    children_.erase(found);
    ended(status);
  }
}

void Loop::Run() {
  while (true) {
    std::vector<pollfd> polled = {{.fd = signals_.get(), .events = POLLIN}};
    std::vector<std::shared_ptr<Entry>> entries;
    for (const auto& [fd, entry] : watches_) {
      polled.push_back({.fd = fd, .events = entry->events});
      entries.push_back(entry);
    }
    if (poll(polled.data(), polled.size(), -1) <= 0) continue;
    if (polled[0].revents != 0) ReadSignals();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (polled[i + 1].revents == 0) continue;
      // An earlier callback may have removed or replaced the watch.
      const auto found = watches_.find(polled[i + 1].fd);
      if (found == watches_.end() || found->second != entries[i]) continue;
      entries[i]->ready(polled[i + 1].revents);
    }
  }
}

}  // namespace berth::guest
