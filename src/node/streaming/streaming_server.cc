#include "node/streaming/streaming_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>

#include "api/time.h"
#include "base/log.h"
#include "node/containers/container_log.h"
#include "node/streaming/streaming_exec.h"
#include "platform/errno.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr milliseconds kRequestTime{10'000};
constexpr milliseconds kSendTime{60'000};
constexpr size_t kMaxConnections = 64;

StatusOr<std::optional<int64_t>> Number(const HttpRequest& request, const std::string& name,
                                        int64_t least) {
  const std::string text = request.Query(name);
  if (text.empty()) return std::optional<int64_t>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    return base::Error(StatusCode::kInvalidArgument, "{}: must be a number of at least {}", name,
                       least);
  }
  return std::optional<int64_t>(value);
}

StatusOr<LogOptions> ParseLogOptions(const HttpRequest& request, base::WallTime now) {
  LogOptions out{.follow = request.QueryFlag("follow"),
                 .timestamps = request.QueryFlag("timestamps")};
  ASSIGN_OR_RETURN(out.tail_lines, Number(request, "tailLines", 0));
  ASSIGN_OR_RETURN(out.limit_bytes, Number(request, "limitBytes", 1));
  ASSIGN_OR_RETURN(const auto seconds, Number(request, "sinceSeconds", 1));
  if (seconds.has_value()) out.since = now - std::chrono::seconds(*seconds);
  if (const std::string time = request.Query("sinceTime"); !time.empty()) {
    ASSIGN_OR_RETURN(out.since, api::ParseTime(time));
  }
  return out;
}

// /VERB/NS/POD/UID/CONTAINER; a port is the whole pod's.
bool IsStreamPath(const std::vector<std::string>& path) {
  if (path.size() == 4) return path[0] == "portForward";
  return path.size() == 5 &&
         (path[0] == "containerLogs" || path[0] == "exec" || path[0] == "attach");
}

StatusOr<std::vector<int32_t>> Ports(const HttpRequest& request) {
  std::vector<int32_t> ports;
  const auto [first, last] = request.query.equal_range("ports");
  for (auto it = first; it != last; ++it) {
    // "80,443" is allowed as well.
    std::string_view rest = it->second;
    while (!rest.empty()) {
      const std::string_view text = rest.substr(0, rest.find(','));
      uint16_t port = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
      if (error != std::errc() || end != text.data() + text.size() || port == 0) {
        return base::Error(StatusCode::kInvalidArgument, "ports: '{}' is no port", text);
      }
      ports.push_back(port);
      rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    }
  }
  return ports;
}

// True if the peer has gone, whatever it may have sent before.
bool HungUp(int fd) {
  pollfd item{.fd = fd, .events = 0, .revents = 0};
  return poll(&item, 1, 0) > 0 && (item.revents & (POLLHUP | POLLERR)) != 0;
}

bool PeerIsRoot(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == 0;
}

// A socket that somebody listens on is another agent's; one that nobody listens on is a crash's.
Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  const base::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return platform::ErrnoError(errno, "make a socket");
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return base::Error(StatusCode::kFailedPrecondition, "another process serves '{}'", path);
  }
  if (errno == ENOENT) return base::OkStatus();
  if (errno != ECONNREFUSED)
    return platform::ErrnoError(errno, fmt::format("look at socket '{}'", path));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return platform::ErrnoError(errno, fmt::format("remove the stale socket '{}'", path));
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<StreamingServer>> StreamingServer::Start(const std::string& socket_path,
                                                                  StreamBackend& backend,
                                                                  const base::Clock& clock) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return base::Error(StatusCode::kInvalidArgument, "socket path '{}' is longer than {} bytes",
                       socket_path, sizeof(address.sun_path) - 1);
  }
  socket_path.copy(address.sun_path, socket_path.size());
  RETURN_IF_ERROR(RemoveStale(socket_path, address));
  base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  base::UniqueFd stop_event(eventfd(0, EFD_CLOEXEC));
  if (!listener.valid() || !stop_event.valid()) return platform::ErrnoError(errno, "make a socket");
  // The mode is right from the first moment on: nobody else may connect before chmod.
  fchmod(listener.get(), 0600);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(socket_path.c_str(), 0600) != 0 || listen(listener.get(), 64) != 0) {
    return platform::ErrnoError(errno, fmt::format("listen on '{}'", socket_path));
  }
  auto server = std::unique_ptr<StreamingServer>(
      new StreamingServer(socket_path, std::move(listener), std::move(stop_event), backend, clock));
  server->acceptor_ = std::thread([raw = server.get()] { raw->AcceptLoop(); });
  return server;
}

StreamingServer::StreamingServer(std::string socket, base::UniqueFd listener,
                                 base::UniqueFd stop_event, StreamBackend& backend,
                                 const base::Clock& clock)
    : socket_(std::move(socket)),
      listener_(std::move(listener)),
      stop_event_(std::move(stop_event)),
      backend_(backend),
      clock_(clock),
      tasks_(kMaxConnections) {}

StreamingServer::~StreamingServer() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
  }
  const uint64_t one = 1;
  if (write(stop_event_.get(), &one, sizeof(one)) != sizeof(one)) {
    LOG_ERROR("stop the streaming server: write to eventfd failed");
  }
  acceptor_.join();
  tasks_.Stop();
  unlink(socket_.c_str());
}

void StreamingServer::AcceptLoop() {
  uint64_t number = 0;
  while (true) {
    pollfd items[2] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                       {.fd = stop_event_.get(), .events = POLLIN, .revents = 0}};
    if (poll(items, 2, -1) < 0 && errno != EINTR) return;
    if (items[1].revents != 0) return;
    base::UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE) poll(&items[1], 1, 100);  // until others close
      continue;
    }
    if (!PeerIsRoot(fd.get())) continue;
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
      if (connections_.size() >= kMaxConnections) {
        const Status busy =
            base::Error(StatusCode::kUnavailable, "too many streams ({})", kMaxConnections);
        (void)SendAll(fd.get(), HttpError(busy), milliseconds(100));
        continue;
      }
      connections_.insert(fd.get());
    }
    auto shared = std::make_shared<base::UniqueFd>(std::move(fd));
    tasks_.Run(fmt::format("{}", number++), [this, shared](std::stop_token) {
      Serve(shared->get());
      base::MutexLock lock(mutex_);
      connections_.erase(shared->get());
      shared->Reset();  // under the lock: its number is not shut down by mistake
    });
  }
}

void StreamingServer::Serve(int fd) {
  const auto request = ReadHttpRequest(fd, kRequestTime);
  Status refused = base::OkStatus();
  if (request.status().code() == StatusCode::kCancelled) return;
  if (!request.ok()) {
    refused = request.status();
  } else if (!IsStreamPath(request->path)) {
    refused = base::Error(StatusCode::kNotFound, "no such path");
  } else {
    const StreamTarget target{
        .ns = request->path[1],
        .pod = request->path[2],
        .uid = request->path[3],
        .container = request->path.size() > 4 ? request->path[4] : std::string()};
    if (request->path[0] != "containerLogs") return ServeStream(fd, *request, target);
    if (request->method == "GET") return ServeLogs(fd, *request, target);
    refused = base::Error(StatusCode::kInvalidArgument, "logs are read with GET");
  }
  (void)SendAll(fd, HttpError(refused), kSendTime);
}

void StreamingServer::ServeLogs(int fd, const HttpRequest& request, const StreamTarget& target) {
  const auto options = ParseLogOptions(request, clock_.Now());
  const auto log = options.ok() ? backend_.FindLog(target, request.QueryFlag("previous"))
                                : StatusOr<StreamBackend::Log>(options.status());
  bool started = false;
  const auto begin = [&] {
    if (std::exchange(started, true)) return true;
    return SendAll(fd,
                   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
                   "Connection: close\r\n\r\n",
                   kSendTime)
        .ok();
  };
  Status done = base::AsStatus(log);
  if (log.ok()) {
    // A follower sees at once that the log is open, even if nothing is in it.
    if (options->follow && !begin()) return;
    done = ReadContainerLog(
        log->path, *options,
        [&](std::string_view bytes) {
          return begin() && SendAll(fd, HttpChunk(bytes), kSendTime).ok();
        },
        [&] { return !backend_.Running(target, log->container_id); }, [&] { return HungUp(fd); });
  }
  if (!done.ok() && !started) {
    (void)SendAll(fd, HttpError(done), kSendTime);
    return;
  }
  // A body that broke off has no end chunk, so that the reader knows.
  if (done.ok() && begin()) (void)SendAll(fd, HttpChunk(""), kSendTime);
}

StatusOr<std::string> StreamingServer::StreamFor(const HttpRequest& request,
                                                 const StreamTarget& target) {
  if (request.path[0] == "portForward") {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ports, Ports(request));
    return backend_.PortForward(target, ports);
  }
  ExecOptions options{.in = request.QueryFlag("stdin"),
                      .out = request.QueryFlag("stdout"),
                      .err = request.QueryFlag("stderr"),
                      .tty = request.QueryFlag("tty")};
  const auto [first, last] = request.query.equal_range("command");
  for (auto it = first; it != last; ++it) options.command.push_back(it->second);
  const bool exec = request.path[0] == "exec";
  if (exec && options.command.empty()) {
    return base::Error(StatusCode::kInvalidArgument, "you must specify a command");
  }
  if (!options.in && !options.out && !options.err) {
    return base::Error(StatusCode::kInvalidArgument,
                       "you must specify at least one of stdin, stdout, stderr");
  }
  // With a terminal there is one output stream; the runtime refuses both.
  if (options.tty) options.err = false;
  return exec ? backend_.Exec(target, options) : backend_.Attach(target, options);
}

void StreamingServer::ServeStream(int fd, const HttpRequest& request, const StreamTarget& target) {
  const auto connect = [&]() -> StatusOr<std::pair<StreamUrl, base::UniqueFd>> {
    ASSIGN_OR_RETURN(const std::string url, StreamFor(request, target));
    ASSIGN_OR_RETURN(StreamUrl parsed, ParseStreamUrl(url));
    ASSIGN_OR_RETURN(base::UniqueFd stream, ConnectStream(parsed));
    return std::pair(std::move(parsed), std::move(stream));
  };
  const auto stream = connect();
  if (!stream.ok()) {
    (void)SendAll(fd, HttpError(stream.status()), kSendTime);
    return;
  }
  const int far = stream->second.get();
  if (!SendAll(far, ForwardedHead(request, stream->first) + request.rest, kSendTime).ok()) {
    (void)SendAll(
        fd,
        HttpError(base::Error(StatusCode::kUnavailable, "the container runtime's stream broke")),
        kSendTime);
    return;
  }
  Splice(fd, far);
}

}  // namespace berth::node
