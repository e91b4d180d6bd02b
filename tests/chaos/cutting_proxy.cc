#include "cutting_proxy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

namespace berth::chaos {

using base::StatusOr;
using base::UniqueFd;

namespace {

constexpr size_t kWindow = 256 * 1024;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd Socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

StatusOr<std::unique_ptr<CuttingProxy>> CuttingProxy::Start(const Options& options) {
  UniqueFd listener = Socket();
  const sockaddr_un address = Address(options.listen);
  unlink(options.listen.c_str());
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 128) != 0) {
    return absl::InternalError(fmt::format("listen on '{}': errno {}", options.listen, errno));
  }
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return absl::InternalError(fmt::format("eventfd: errno {}", errno));
  return std::unique_ptr<CuttingProxy>(
      new CuttingProxy(options, std::move(listener), std::move(wake)));
}

CuttingProxy::CuttingProxy(const Options& options, UniqueFd listener, UniqueFd wake)
    : options_(options),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      random_(options.seed),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

CuttingProxy::~CuttingProxy() {
  thread_.request_stop();
  eventfd_write(wake_.get(), 1);
}

void CuttingProxy::Cut(double probability) {
  wanted_cut_ = probability;
  eventfd_write(wake_.get(), 1);
}

void CuttingProxy::Run(const std::stop_token& stop) {
  std::vector<pollfd> polled;
  while (!stop.stop_requested()) {
    polled = {{.fd = listener_.get(), .events = POLLIN}, {.fd = wake_.get(), .events = POLLIN}};
    const auto wanted = [](const Stream& in, const Stream& out) {
      const bool read = !in.ended && in.waiting.size() < kWindow;
      return static_cast<short>((read ? POLLIN : 0) | (out.waiting.empty() ? 0 : POLLOUT));
    };
    for (const Connection& one : connections_) {
      polled.push_back({.fd = one.client.get(), .events = wanted(one.up, one.down)});
      polled.push_back({.fd = one.server.get(), .events = wanted(one.down, one.up)});
    }
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;

    size_t at = 2;
    for (auto it = connections_.begin(); it != connections_.end(); at += 2) {
      it = MoveBytes(*it, polled[at].revents, polled[at + 1].revents) ? std::next(it)
                                                                      : connections_.erase(it);
    }
    if (polled[0].revents != 0) Accept();
    if (polled[1].revents != 0) {
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
      CutSome(wanted_cut_.exchange(0));
    }
  }
}

void CuttingProxy::Accept() {
  UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) return;
  UniqueFd server = Socket();
  const sockaddr_un address = Address(options_.server);
  if (!server.valid() ||
      connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return;
  }
  Connection& made = connections_.emplace_back();
  made.up = {.from = client.get(), .to = server.get(), .waiting = {}};
  made.down = {.from = server.get(), .to = client.get(), .waiting = {}};
  made.client = std::move(client);
  made.server = std::move(server);
  if (std::bernoulli_distribution(options_.short_lived)(random_)) {
    made.life = std::uniform_int_distribution<int64_t>(
        0, static_cast<int64_t>(options_.longest_life))(random_);
  }
}

void CuttingProxy::CutSome(double probability) {
  if (probability <= 0) return;
  std::bernoulli_distribution falls(probability);
  for (auto it = connections_.begin(); it != connections_.end();) {
    const bool cut = falls(random_);
    if (cut) ++cuts_;
    it = cut ? connections_.erase(it) : std::next(it);
  }
}

bool CuttingProxy::Forward(Stream& stream, bool readable, bool writable, int64_t* life) {
  if (readable && !stream.ended && stream.waiting.size() < kWindow) {
    char data[65536];
    const ssize_t got = recv(stream.from, data, sizeof(data), 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (got == 0) stream.ended = true;
    if (got > 0) stream.waiting.append(data, static_cast<size_t>(got));
  }
  if ((readable || writable) && !stream.waiting.empty()) {
    size_t size = stream.waiting.size();
    if (life != nullptr) size = std::min(size, static_cast<size_t>(std::max<int64_t>(*life, 0)));
    const ssize_t sent = send(stream.to, stream.waiting.data(), size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) {
      stream.waiting.erase(0, static_cast<size_t>(sent));
      if (life != nullptr) *life -= sent;
    }
    if (life != nullptr && *life <= 0) return false;
  }
  if (stream.ended && stream.waiting.empty()) shutdown(stream.to, SHUT_WR);
  return true;
}

bool CuttingProxy::MoveBytes(Connection& connection, short client_events, short server_events) {
  constexpr short kIn = POLLIN | POLLHUP | POLLERR;
  const bool alive =
      Forward(connection.up, (client_events & kIn) != 0, (server_events & POLLOUT) != 0, nullptr) &&
      Forward(connection.down, (server_events & kIn) != 0, (client_events & POLLOUT) != 0,
              &connection.life);
  if (!alive) {
    if (connection.life <= 0) ++cuts_;
    return false;
  }
  // The connection ends when one side has closed and all its data was passed on. A client that
  // closed only its own direction would still wait for an answer, but none of these clients does.
  return !(connection.down.ended && connection.down.waiting.empty()) &&
         !(connection.up.ended && connection.up.waiting.empty());
}

}  // namespace berth::chaos
