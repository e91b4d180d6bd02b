#include "cmd/berth-init/fuse_holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "cmd/berth-init/files.h"
#include "cmd/berth-init/log_line.h"

namespace berth::init {
namespace {

using base::UniqueFd;

// A child that has been at one process for this time is given up. What does not block takes
// microseconds.
constexpr int kPatienceMs = 1'000;
constexpr int kMostGivenUp = 4;
// Of the children that were killed but do not end. Each of them costs a process of the pod's limit.
constexpr size_t kMostStuck = 8;

// The children that were killed but have not ended yet.
class StuckReaders {
 public:
  void Add(pid_t pid) {
    pids_.push_back(pid);
    if (logged_) return;
    logged_ = true;
    LogLine(
        "a child that looked for FUSE daemons does not end, because a file system does not "
        "answer; at most " +
        std::to_string(kMostStuck) + " of them are made");
  }
  // Reaps those that have ended meanwhile.
  void Reap() {
    std::erase_if(pids_, [](pid_t pid) {
      pid_t reaped = 0;
      while ((reaped = waitpid(pid, nullptr, __WALL | WNOHANG)) < 0 && errno == EINTR) {
      }
      return reaped != 0;
    });
  }
  bool are_many() const { return pids_.size() >= kMostStuck; }
  size_t size() const { return pids_.size(); }

 private:
  std::vector<pid_t> pids_;
  bool logged_ = false;
};

StuckReaders& GetStuckReaders() {
  static StuckReaders readers;
  return readers;
}

// A child sends this for each process. It is written and read in one piece.
struct Answer {
  uint32_t holds = 0;
  uint32_t count = 0;
  std::array<uint64_t, 500> connections = {};
};
static_assert(sizeof(Answer) <= PIPE_BUF);

void AddConnection(const std::string& fdinfo, Answer& answer) {
  constexpr std::string_view kField = "\nfuse_connection:\t";  // "pos" is the first line
  const auto info = ReadWhole(fdinfo);
  const size_t at = info.ok() ? info->find(kField) : std::string::npos;
  if (at == std::string::npos || answer.count == answer.connections.size()) return;
  answer.connections[answer.count++] = strtoull(info->c_str() + at + kField.size(), nullptr, 10);
}

Answer ReadHolder(const std::string& process) {
  Answer answer;
  DIR* handle = opendir((process + "/fd").c_str());
  if (handle == nullptr) return answer;
  while (const dirent* entry = readdir(handle)) {
    // The link is not followed, because access to its target may hang.
    char target[256];
    const ssize_t size = readlinkat(dirfd(handle), entry->d_name, target, sizeof(target));
    if (size <= 0 || !std::string_view(target, static_cast<size_t>(size)).ends_with("/dev/fuse")) {
      continue;
    }
    answer.holds = 1;
    AddConnection(process + "/fdinfo/" + entry->d_name, answer);
  }
  closedir(handle);
  return answer;
}

// A child that writes an answer for each process. It has no exit signal, because SIGCHLD would wake
// this program, which would look at the processes again.
class Reader {
 public:
  Reader(const std::string& proc, const std::vector<pid_t>& pids, size_t first) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    in_ = UniqueFd(ends[0]);
    const UniqueFd out(ends[1]);
    pid_ = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
    if (pid_ != 0) return;
    for (size_t i = first; i < pids.size(); ++i) {
      const Answer answer = ReadHolder(proc + "/" + std::to_string(pids[i]));
      if (write(out.get(), &answer, sizeof(answer)) != sizeof(answer)) break;
    }
    _exit(0);
  }
  ~Reader() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    // It ends at once, unless the kernel lets not even SIGKILL end the read. Without a descriptor
    // of it nothing tells when it ends.
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd ended = {.fd = process.get(), .events = POLLIN, .revents = 0};
    if (process.valid()) poll(&ended, 1, kPatienceMs);
    if (waitpid(pid_, nullptr, __WALL | WNOHANG) == 0) GetStuckReaders().Add(pid_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // False: the child waits at the process, or has failed.
  bool ReadNext(Answer& answer) {
    pollfd ready = {.fd = in_.get(), .events = POLLIN, .revents = 0};
    return pid_ > 0 && poll(&ready, 1, kPatienceMs) == 1 &&
           read(in_.get(), &answer, sizeof(answer)) == sizeof(answer);
  }

 private:
  UniqueFd in_;
  pid_t pid_ = -1;
};

}  // namespace

size_t ReapReaders() {
  GetStuckReaders().Reap();
  return GetStuckReaders().size();
}

std::vector<FuseHolder> FindFuseHolders(const std::string& proc, const std::vector<pid_t>& pids) {
  std::vector<FuseHolder> holders;
  size_t next = 0;
  ReapReaders();
  for (int given_up = 0;
       next < pids.size() && given_up < kMostGivenUp && !GetStuckReaders().are_many(); ++given_up) {
    Reader reader(proc, pids, next);
    for (Answer answer; next < pids.size() && reader.ReadNext(answer); ++next) {
      if (answer.holds == 0) continue;
      const auto begin = answer.connections.begin();
      holders.push_back({pids[next], true, {begin, begin + answer.count}});
    }
    if (next < pids.size()) holders.push_back({.pid = pids[next++]});
  }
  for (; next < pids.size(); ++next) holders.push_back({.pid = pids[next]});
  return holders;
}

}  // namespace berth::init
