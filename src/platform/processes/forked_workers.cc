#include "platform/processes/forked_workers.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/flight.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using WorkerDeadline = std::chrono::steady_clock::time_point;

// A worker that nobody asks for this long ends, so that an idle process has only the template.
constexpr int kIdleMilliseconds = 2000;
constexpr size_t kMostIdle = 16;
// Most requests take less than a millisecond, and a new worker about as long.
constexpr std::chrono::milliseconds kWorkerPatience{10};
// How long a worker that was sent SIGKILL may take to end before it is left to a later call.
constexpr std::chrono::milliseconds kWorkerKilledGrace{100};

struct Reply {
  int result = 0;  // 0 or an errno
  std::array<std::byte, ForkedWorkers::kMostBytes> bytes = {};
};

// Serves until nobody asks any more, or this process's parent is gone.
[[noreturn]] void RunWorker(int socket, ForkedWorkers::Body body) {
  prctl(PR_SET_NAME, "forked-worker");
  std::array<char, ForkedWorkers::kMostBytes + 1> request;
  for (;;) {
    pollfd poll_fd = {.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&poll_fd, 1, kIdleMilliseconds) <= 0) _exit(0);
    const ssize_t n = recv(socket, request.data(), ForkedWorkers::kMostBytes, 0);
    if (n <= 0) _exit(0);
    request[static_cast<size_t>(n)] = '\0';
    Reply reply;
    reply.result = body(request.data(), reply.bytes);
    if (send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) < 0) _exit(1);
  }
}

}  // namespace

ForkedWorkers::ForkedWorkers(Body body)
    : template_([body](int socket) { RunWorker(socket, body); }) {}

base::StatusOr<ForkTemplate::Worker> ForkedWorkers::TakeWorker(std::string_view what,
                                                               bool& is_new) {
  is_new = false;
  {
    const WorkerDeadline patience = std::chrono::steady_clock::now() + kWorkerPatience;
    base::MutexLock lock(mutex_);
    while (idle_.empty() && working_ > 1 && kept_.WaitUntil(mutex_, patience)) {
    }
    if (!idle_.empty()) {
      Worker worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  is_new = true;
  return template_.StartWorker(what);
}

void ForkedWorkers::KeepWorker(Worker worker) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<Worker> ended;  // closed without the lock
  base::MutexLock lock(mutex_);
  const auto gone = std::partition(idle_.begin(), idle_.end(), [now](const Worker& idle) {
    return !WaitReadable(idle.ended.get(), now);
  });
  std::move(gone, idle_.end(), std::back_inserter(ended));
  idle_.erase(gone, idle_.end());
  if (idle_.size() < kMostIdle) {
    idle_.push_back(std::move(worker));
    kept_.NotifyOne();
  } else {
    ended.push_back(std::move(worker));
  }
}

class ForkedWorkers::Working {
 public:
  explicit Working(ForkedWorkers& workers) : workers_(workers) {
    base::MutexLock lock(workers_.mutex_);
    ++workers_.working_;
  }
  ~Working() {
    base::MutexLock lock(workers_.mutex_);
    --workers_.working_;
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  ForkedWorkers& workers_;
};

base::Status ForkedWorkers::SendRequest(std::string_view what, std::chrono::milliseconds timeout,
                                        const std::string& request, std::span<std::byte> reply) {
  if (request.empty() || request.size() > kMostBytes || request.find('\0') != std::string::npos) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "{}: a request has 1 to {} bytes, none of them zero", what, kMostBytes);
  }
  const WorkerDeadline deadline = std::chrono::steady_clock::now() + timeout;
  base::FlightSpan span(base::FlightKind::kProcess, "berth", what);
  const base::Status status = [&]() -> base::Status {
    for (;;) {
      bool is_new = false;
      ASSIGN_OR_RETURN(Worker worker, TakeWorker(what, is_new));
      const Working working(*this);
      span.SetPid(worker.pid);
      Reply answer;
      const bool sent =
          send(worker.socket.get(), request.data(), request.size(), MSG_NOSIGNAL) >= 0;
      const bool readable = sent && WaitReadable(worker.socket.get(), deadline);
      const ssize_t n = readable ? recv(worker.socket.get(), &answer, sizeof(answer), 0) : -1;
      if (n == static_cast<ssize_t>(sizeof(answer))) {
        KeepWorker(std::move(worker));
        if (answer.result != 0) return ErrnoError(answer.result, what);
        std::copy_n(answer.bytes.begin(), reply.size(), reply.begin());
        return base::OkStatus();
      }
      // An idle worker may end at the moment when it is asked.
      if (!is_new && (!sent || readable)) continue;
      // By the descriptor, because another thread may have reaped the worker by now.
      syscall(SYS_pidfd_send_signal, worker.ended.get(), SIGKILL, nullptr, 0);
      WaitReadable(worker.ended.get(), std::chrono::steady_clock::now() + kWorkerKilledGrace);
      if (!sent || readable) {
        return base::Error(base::StatusCode::kInternal, "{}: the child process died", what);
      }
      return base::Error(base::StatusCode::kDeadlineExceeded, "{}: no answer within {} ms", what,
                         timeout.count());
    }
  }();
  span.End(status);
  return status;
}

}  // namespace berth::platform
