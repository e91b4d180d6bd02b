#include "platform/processes/qmp_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "platform/errno.h"

namespace berth::platform {

using base::Error;
using base::Json;
using base::StatusCode;
using std::chrono::steady_clock;

namespace {

constexpr int kMostEvents = 1000;  // between a command and its answer

base::Status WaitFor(int fd, short events, QmpClient::Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) {
      return Error(StatusCode::kDeadlineExceeded, "QEMU does not answer");
    }
    pollfd ready = {fd, events, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (polled > 0) return base::OkStatus();
    if (polled < 0 && errno != EINTR) return ErrnoError(errno, "wait for QMP");
  }
}

// Sends what fits, and the descriptor with the first byte. Returns the number of bytes, or -1 and
// errno.
ssize_t SendSome(int socket, std::string_view bytes, int descriptor) {
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr parts = {.msg_iov = &part, .msg_iovlen = 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    parts.msg_control = room;
    parts.msg_controllen = sizeof room;
    cmsghdr* head = CMSG_FIRSTHDR(&parts);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
  }
  return sendmsg(socket, &parts, MSG_NOSIGNAL);
}

}  // namespace

base::Status QmpReader::AddBytes(std::string_view bytes) {
  pending_ += bytes;
  const size_t last = pending_.rfind('\n');
  const size_t open = last == std::string::npos ? pending_.size() : pending_.size() - last - 1;
  if (open <= kLongestLine) return base::OkStatus();
  return Error(StatusCode::kResourceExhausted, "a line of QMP is longer than {} bytes",
               kLongestLine);
}

base::StatusOr<std::optional<Json>> QmpReader::TakeObject() {
  for (;;) {
    const size_t end = pending_.find('\n');
    if (end == std::string::npos) return std::optional<Json>();
    std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (line.size() > kLongestLine) {
      return Error(StatusCode::kResourceExhausted, "a line of QMP is longer than {} bytes",
                   kLongestLine);
    }
    ASSIGN_OR_RETURN(Json object, base::json::Parse(line));
    if (!object.is_object()) {
      return Error(StatusCode::kInvalidArgument, "a line of QMP is no JSON object");
    }
    return std::optional<Json>(std::move(object));
  }
}

base::StatusOr<QmpClient> QmpClient::Connect(const std::string& socket, Deadline deadline) {
  const std::string context = fmt::format("connect to {}", base::Quote(socket));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) {
    return Error(StatusCode::kInvalidArgument, "{}: the path is too long for a socket", context);
  }
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ECONNREFUSED || error == EAGAIN) {
      return Error(StatusCode::kUnavailable, "{}: no process listens", context);
    }
    return ErrnoError(error, context);
  }
  QmpClient client(std::move(fd));
  ASSIGN_OR_RETURN(const Json greeting, client.Receive(deadline));
  if (!greeting.contains("QMP")) {
    return Error(StatusCode::kFailedPrecondition, "{}: its greeting is not QMP's", context);
  }
  RETURN_IF_ERROR(client.Call("qmp_capabilities", Json::object(), deadline));
  return client;
}

base::StatusOr<Json> QmpClient::Receive(Deadline deadline) {
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<Json> object, reader_.TakeObject());
    if (object.has_value()) return *std::move(object);
    RETURN_IF_ERROR(WaitFor(socket_.get(), POLLIN, deadline));
    const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) {
      return Error(StatusCode::kUnavailable, "QEMU closed its QMP socket");
    }
    RETURN_IF_ERROR(reader_.AddBytes({buffer.data(), static_cast<size_t>(got)}));
  }
}

base::StatusOr<Json> QmpClient::Call(std::string_view command, Json arguments, Deadline deadline,
                                     int descriptor) {
  const int64_t id = next_id_++;
  Json request = {{"execute", command}, {"id", id}};
  if (!arguments.empty()) request["arguments"] = std::move(arguments);
  const std::string line = base::json::Dump(request) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n =
        SendSome(socket_.get(), std::string_view(line).substr(sent), sent == 0 ? descriptor : -1);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(socket_.get(), POLLOUT, deadline));
    } else if (n < 0 && errno != EINTR) {
      return Error(StatusCode::kUnavailable, "{}: QEMU closed its QMP socket", command);
    }
  }
  for (int i = 0; i < kMostEvents; ++i) {
    auto answer = Receive(deadline);
    if (!answer.ok()) return base::Annotate(answer.status(), command);
    if (base::json::Int(*answer, {"id"}, -1) != id) continue;  // an event, or an older answer
    if (const Json* error = base::json::Find(*answer, {"error"}); error != nullptr) {
      return Error(StatusCode::kFailedPrecondition, "{}: {}", command,
                   base::json::String(*error, {"desc"}, "refused"));
    }
    return answer->value("return", Json::object());
  }
  return Error(StatusCode::kResourceExhausted, "{}: {} events came, and no answer", command,
               kMostEvents);
}

}  // namespace berth::platform
