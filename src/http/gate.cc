#include "http/gate.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace berth::http {
namespace {

using std::chrono::steady_clock;

// How long to wait after accept failed, mostly because no descriptor was free.
constexpr int kAcceptPauseMs = 100;
constexpr std::chrono::seconds kSweepTime{1};

// A reset costs less than an end in order, and leaves no socket in TIME_WAIT.
void Reset(base::UniqueFd socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

// Errors of a client that is gone already; accept(2).
bool IsClientsError(int error) {
  return error == EAGAIN || error == EINTR || error == ECONNABORTED || error == EPROTO ||
         error == ENETDOWN || error == EHOSTUNREACH || error == ENETUNREACH;
}

}  // namespace

Gate::Gate(base::UniqueFd listener, Options options, Admit admit)
    : options_(std::move(options)),
      admit_(std::move(admit)),
      listener_(std::move(listener)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      peers_(options_.local_clients_by_user),
      arrivals_(options_.limits) {
  fcntl(listener_.get(), F_SETFL, fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  thread_ = std::jthread([this] {
    // The kernel accepts thread names of at most 15 bytes.
    pthread_setname_np(pthread_self(), (options_.name.substr(0, 10) + "-gate").c_str());
    Run();
  });
}

Gate::~Gate() { Stop(); }

bool Gate::MayArrive(const std::string& key) {
  static const std::string own = fmt::format("uid {}", geteuid());
  const auto now = steady_clock::now();
  base::MutexLock lock(mutex_);
  if (now - swept_ > kSweepTime) {
    arrivals_.ForgetFull(now);
    swept_ = now;
  }
  if (key != "uid 0" && key != own && !arrivals_.Admit(key, now)) {
    ++refused_;
    return false;
  }
  admitting_ = true;
  return true;
}

bool Gate::WaitForClient() {
  {
    base::MutexLock lock(mutex_);
    while (admitting_ && !stopped_) changed_.Wait(mutex_);
    if (stopped_) return false;
  }
  pollfd fds[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                  {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

void Gate::Run() {
  while (WaitForClient()) {
    base::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (IsClientsError(errno)) continue;
      LOG_WARNING("{}: accept failed: {}", options_.name, strerrordesc_np(errno));
      pollfd stop = {.fd = stop_.get(), .events = POLLIN, .revents = 0};
      poll(&stop, 1, kAcceptPauseMs);
      continue;
    }
    std::string key = peers_.NamePeer(socket.get());
    if (!MayArrive(key)) {
      Reset(std::move(socket));
      continue;
    }
    admit_(std::move(socket), std::move(key));
  }
}

void Gate::AdmitNext() {
  base::MutexLock lock(mutex_);
  admitting_ = false;
  changed_.NotifyAll();
}

void Gate::ChargeUser(const std::string& user, const std::string& key) {
  base::MutexLock lock(mutex_);
  if (arrivals_.Admit("user " + user, steady_clock::now())) arrivals_.Refund(key);
}

size_t Gate::TakeRefused() {
  base::MutexLock lock(mutex_);
  return std::exchange(refused_, 0);
}

void Gate::Stop() {
  {
    base::MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) {
    // The event is readable already.
  }
  if (thread_.joinable()) thread_.join();
  listener_.Reset();
}

}  // namespace berth::http
