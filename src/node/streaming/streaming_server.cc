#include "node/streaming/streaming_server.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "api/time.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "http/blocking_stream.h"
#include "http/server.h"
#include "node/containers/container_log.h"
#include "node/streaming/streaming_exec.h"
#include "platform/errno.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

http::Limits MakeHttpLimits(const StreamLimits& limits) {
  return {.max_head = 32 * 1024,
          // Connections may outnumber streams, so that silent ones, and those that are refused
          // because there are too many streams, do not take the place of a stream.
          .seats = {.total = 2 * limits.streams},
          .request = milliseconds(10'000),
          .stall = milliseconds(60'000),
          .quiet = limits.quiet,
          .one_request = true,
          .half_close = true};
}

http::SeatLimits MakePlaceLimits(const StreamLimits& limits) {
  return {.total = limits.streams,
          .owner_reserve = limits.administrators,
          .max_strangers = 0,
          .max_per_user = std::max(limits.per_user, limits.per_system_user)};
}

StatusOr<std::optional<int64_t>> ParseNumber(const http::Query& query, const std::string& name,
                                             int64_t least) {
  const std::string& text = query.Get(name);
  if (text.empty()) return std::optional<int64_t>();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    return base::Error(StatusCode::kInvalidArgument, "{}: must be a number of at least {}", name,
                       least);
  }
  return std::optional<int64_t>(value);
}

StatusOr<LogOptions> ParseLogOptions(const http::Query& query, base::WallTime now) {
  LogOptions out{.follow = query.Bool("follow"), .timestamps = query.Bool("timestamps")};
  ASSIGN_OR_RETURN(out.tail_lines, ParseNumber(query, "tailLines", 0));
  ASSIGN_OR_RETURN(out.limit_bytes, ParseNumber(query, "limitBytes", 1));
  ASSIGN_OR_RETURN(const auto seconds, ParseNumber(query, "sinceSeconds", 1));
  if (seconds.has_value()) out.since = now - std::chrono::seconds(*seconds);
  if (const std::string& time = query.Get("sinceTime"); !time.empty()) {
    ASSIGN_OR_RETURN(out.since, api::ParseTime(time));
  }
  return out;
}

// /VERB/NS/POD/UID/CONTAINER. portForward names no container, because ports are those of the pod.
bool IsStreamPath(const std::vector<std::string>& path) {
  if (path.size() == 4) return path[0] == "portForward";
  return path.size() == 5 &&
         (path[0] == "containerLogs" || path[0] == "exec" || path[0] == "attach");
}

StatusOr<std::vector<int32_t>> ParsePorts(const http::Query& query) {
  std::vector<int32_t> ports;
  for (const std::string& value : query.All("ports")) {
    // "80,443" is allowed as well.
    std::string_view rest = value;
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

std::pair<int, std::string_view> CodeAndReason(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return {400, "BadRequest"};
    case StatusCode::kPermissionDenied:
      return {403, "Forbidden"};
    case StatusCode::kNotFound:
      return {404, "NotFound"};
    case StatusCode::kResourceExhausted:
      return {429, "TooManyRequests"};
    case StatusCode::kUnimplemented:
      return {501, "NotImplemented"};
    case StatusCode::kUnavailable:
      return {503, "ServiceUnavailable"};
    default:
      return {500, "InternalError"};
  }
}

// A Kubernetes Status, with the HTTP code that fits `status`.
http::Response ErrorResponse(const Status& status) {
  const auto [code, reason] = CodeAndReason(status.code());
  return {.code = code,
          .body = base::json::Dump({{"kind", "Status"},
                                    {"apiVersion", "v1"},
                                    {"metadata", base::Json::object()},
                                    {"status", "Failure"},
                                    {"message", std::string(base::Message(status))},
                                    {"reason", std::string(reason)},
                                    {"code", code}}),
          .cache_control = ""};
}

// A socket on which a process listens belongs to another agent. Any other socket is left over from
// a crash.
Status RemoveStale(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return base::Error(StatusCode::kInvalidArgument, "socket path '{}' is longer than {} bytes",
                       path, sizeof(address.sun_path) - 1);
  }
  path.copy(address.sun_path, path.size());
  const base::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.valid()) return platform::ErrnoError(errno, "make a socket");
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return base::Error(StatusCode::kFailedPrecondition, "another process serves '{}'", path);
  }
  if (errno == ENOENT) return base::OkStatus();
  if (errno != ECONNREFUSED)
    return platform::ErrnoError(errno, fmt::format("connect to the socket '{}'", path));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return platform::ErrnoError(errno, fmt::format("remove the stale socket '{}'", path));
  }
  return base::OkStatus();
}

}  // namespace

struct StreamingServer::Call {
  std::shared_ptr<http::Exchange> exchange;
  std::shared_ptr<void> place;  // counts as a stream until the last copy is gone
  std::string verb;             // the path's first part
  StreamTarget target;
  http::Query query;
};

StatusOr<std::unique_ptr<StreamingServer>> StreamingServer::Start(const std::string& socket_path,
                                                                  StreamBackend& backend,
                                                                  const base::Clock& clock,
                                                                  const StreamLimits& limits) {
  RETURN_IF_ERROR(RemoveStale(socket_path));
  auto server = std::unique_ptr<StreamingServer>(new StreamingServer(backend, clock, limits));
  ASSIGN_OR_RETURN(server->http_, http::Server::Listen({.name = "streaming",
                                                        .unix_socket = socket_path,
                                                        .limits = MakeHttpLimits(limits)},
                                                       nullptr, *server));
  return server;
}

StreamingServer::StreamingServer(StreamBackend& backend, const base::Clock& clock,
                                 const StreamLimits& limits)
    : backend_(backend),
      clock_(clock),
      limits_(limits),
      places_(MakePlaceLimits(limits)),
      tasks_(static_cast<int>(limits.streams)) {}

StreamingServer::~StreamingServer() {
  if (http_) http_->Stop();  // this also ends the logs, because they have no reader then
  tasks_.Stop();
}

std::shared_ptr<const http::User> StreamingServer::FindProcessUser(uid_t uid) const {
  if (uid != 0) return nullptr;
  return std::make_shared<const http::User>(http::User{.name = "root", .uid = {}});
}

std::optional<http::Response> StreamingServer::RenderRefusal(const http::Refusal& refusal) const {
  switch (refusal.code) {
    case 429:
    case 431:
      return ErrorResponse(base::Error(StatusCode::kResourceExhausted, "{}", refusal.message));
    case 500:
      return ErrorResponse(base::Error(StatusCode::kInternal, "{}", refusal.message));
    default:
      return ErrorResponse(base::Error(StatusCode::kInvalidArgument, "{}", refusal.message));
  }
}

StatusOr<std::shared_ptr<void>> StreamingServer::TakePlace(const http::Request& request) {
  struct Place : http::Seat {};
  const std::string user(request.Header("X-Remote-User"));
  // A request without a user comes from root itself: nobody else can use the socket.
  const bool administrator =
      user.empty() ||
      std::any_of(request.headers.begin(), request.headers.end(), [](const auto& header) {
        return http::EqualsIgnoreCase(header.first, "X-Remote-Group") &&
               header.second == "system:masters";
      });
  const auto client = administrator ? http::ClientClass::kOwner : http::ClientClass::kVerified;
  const auto now = std::chrono::steady_clock::now();
  auto place = std::make_unique<Place>();
  base::MutexLock lock(mutex_);
  const size_t own = places_.CountSeats(client, user);
  const size_t most = user.starts_with("system:") ? limits_.per_system_user : limits_.per_user;
  if (!administrator && own >= most) {
    return base::Error(StatusCode::kResourceExhausted, "user {} has too many streams ({})",
                       base::Quote(user), own);
  }
  if (!places_.OfferSeat(client, user, now).granted) {
    return base::Error(StatusCode::kUnavailable, "too many streams ({})", places_.size());
  }
  places_.AddSeat(*place, client, user, http::Seat::Stage::kWorking, now);
  return std::shared_ptr<void>(place.release(), [this](Place* taken) {
    base::MutexLock guard(mutex_);
    places_.RemoveSeat(*taken);
    delete taken;
  });
}

void StreamingServer::Handle(std::shared_ptr<http::Exchange> exchange) {
  auto place = TakePlace(exchange->request());
  if (!place.ok()) return exchange->Reply(ErrorResponse(place.status()));
  tasks_.RunTask(fmt::format("{}", number_++), "",
                 [this, exchange = std::move(exchange),
                  place = *std::move(place)](std::stop_token) { Serve(exchange, place); });
}

void StreamingServer::Serve(const std::shared_ptr<http::Exchange>& exchange,
                            const std::shared_ptr<void>& place) {
  const auto parse = [&]() -> StatusOr<Call> {
    const http::Request& request = exchange->request();
    if (!request.target.starts_with('/')) {
      return base::Error(StatusCode::kInvalidArgument, "the request's target is not a path");
    }
    auto path = http::SplitPath(request.raw_path());
    if (!path) {
      return base::Error(StatusCode::kInvalidArgument,
                         "bad percent-encoding in the request's target");
    }
    ASSIGN_OR_RETURN(http::Query query, http::Query::Parse(request.raw_query()));
    if (!IsStreamPath(*path)) return base::Error(StatusCode::kNotFound, "no such path");
    path->resize(5);  // portForward gets an empty container
    std::vector<std::string>& parts = *path;
    return Call{.exchange = exchange,
                .place = place,
                .verb = std::move(parts[0]),
                .target = {.ns = std::move(parts[1]),
                           .pod = std::move(parts[2]),
                           .uid = std::move(parts[3]),
                           .container = std::move(parts[4])},
                .query = std::move(query)};
  };
  const auto call = parse();
  const Status served = call.ok() ? ServeCall(*call) : call.status();
  if (!served.ok()) exchange->Reply(ErrorResponse(served));
}

Status StreamingServer::ServeCall(const Call& call) {
  if (call.verb != "containerLogs") return ServeStream(call);
  if (call.exchange->request().method == "GET") return ServeLogs(call);
  return base::Error(StatusCode::kInvalidArgument, "logs are read with GET");
}

Status StreamingServer::ServeLogs(const Call& call) {
  ASSIGN_OR_RETURN(const LogOptions options, ParseLogOptions(call.query, clock_.Now()));
  ASSIGN_OR_RETURN(const StreamBackend::Log log,
                   backend_.FindLog(call.target, call.query.Bool("previous")));
  http::BlockingStream stream(call.exchange);
  const auto begin = [&] { stream.Start({.content_type = "text/plain", .cache_control = ""}); };
  // A follower sees at once that the log is open, even if nothing is in it.
  if (options.follow) begin();
  const Status done = ReadContainerLog(
      log.path, options,
      [&](std::string_view bytes) {
        begin();
        return stream.Send(bytes);
      },
      [&] { return !backend_.IsRunning(call.target, log.container_id); },
      [&] { return call.exchange->over(); });
  if (!done.ok() && !stream.started()) return done;
  // After a failure the body has no end chunk, so that the reader knows that it is incomplete.
  if (done.ok()) {
    begin();
    stream.End();
  }
  return base::OkStatus();
}

StatusOr<std::string> StreamingServer::FindStreamUrl(const Call& call) {
  if (call.verb == "portForward") {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ports, ParsePorts(call.query));
    return backend_.PortForward(call.target, ports);
  }
  ExecOptions options{.command = call.query.All("command"),
                      .in = call.query.Bool("stdin"),
                      .out = call.query.Bool("stdout"),
                      .err = call.query.Bool("stderr"),
                      .tty = call.query.Bool("tty")};
  const bool exec = call.verb == "exec";
  if (exec && options.command.empty()) {
    return base::Error(StatusCode::kInvalidArgument, "you must specify a command");
  }
  if (!options.in && !options.out && !options.err) {
    return base::Error(StatusCode::kInvalidArgument,
                       "you must specify at least one of stdin, stdout, stderr");
  }
  // A terminal has one output stream, and the runtime refuses a separate stderr with it.
  if (options.tty) options.err = false;
  return exec ? backend_.Exec(call.target, options) : backend_.Attach(call.target, options);
}

Status StreamingServer::ServeStream(const Call& call) {
  ASSIGN_OR_RETURN(const std::string url, FindStreamUrl(call));
  ASSIGN_OR_RETURN(const StreamUrl parsed, ParseStreamUrl(url));
  ASSIGN_OR_RETURN(base::UniqueFd stream, ConnectStream(parsed));
  call.exchange->OnOver([place = call.place] {});
  call.exchange->Proxy({.stream = std::move(stream),
                        .head = MakeForwardedRequest(call.exchange->request(), parsed),
                        .failure = ErrorResponse(base::Error(
                            StatusCode::kUnavailable, "the container runtime's stream broke"))});
  return base::OkStatus();
}

}  // namespace berth::node
