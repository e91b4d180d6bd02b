#include "node/streaming/streaming_http.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "base/text.h"
#include "platform/errno.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMaxHead = 32 * 1024;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

StatusOr<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return base::Error(StatusCode::kInvalidArgument,
                           "bad percent-encoding in the request's target");
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

Status ParseTarget(HttpRequest& request) {
  std::string_view target = request.target;
  const size_t question = target.find('?');
  std::string_view path = target.substr(0, question);
  if (!path.starts_with('/')) {
    return base::Error(StatusCode::kInvalidArgument, "the request's target is no path");
  }
  path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    ASSIGN_OR_RETURN(std::string part, Decode(path.substr(0, slash), false));
    request.path.push_back(std::move(part));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  std::string_view query = question == std::string_view::npos ? "" : target.substr(question + 1);
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    ASSIGN_OR_RETURN(std::string name, Decode(pair.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      ASSIGN_OR_RETURN(value, Decode(pair.substr(equals + 1), true));
    }
    if (!name.empty()) request.query.emplace(std::move(name), std::move(value));
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return base::OkStatus();
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

// Milliseconds until `deadline` for poll(2), rounded up.
int PollTime(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

}  // namespace

std::string HttpRequest::Query(const std::string& name) const {
  const auto it = query.find(name);
  return it == query.end() ? std::string() : it->second;
}

bool HttpRequest::QueryFlag(const std::string& name) const {
  const auto it = query.find(name);
  return it != query.end() && it->second != "0" && it->second != "false";
}

StatusOr<HttpRequest> ParseHttpRequest(std::string_view head) {
  HttpRequest out;
  bool first = true;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 2);
    if (line.find_first_of(std::string_view("\0\r\n", 3)) != std::string_view::npos) {
      return base::Error(StatusCode::kInvalidArgument, "control characters in the request's head");
    }
    if (first) {
      first = false;
      const size_t one = line.find(' ');
      const size_t two = one == std::string_view::npos ? one : line.find(' ', one + 1);
      if (two == std::string_view::npos || !IsToken(line.substr(0, one)) ||
          line.substr(two + 1) != "HTTP/1.1") {
        return base::Error(StatusCode::kInvalidArgument, "not an HTTP/1.1 request");
      }
      out.method = line.substr(0, one);
      out.target = line.substr(one + 1, two - one - 1);
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
      return base::Error(StatusCode::kInvalidArgument, "a malformed header in the request's head");
    }
    out.headers.emplace_back(line.substr(0, colon), base::Trim(line.substr(colon + 1)));
  }
  if (first) return base::Error(StatusCode::kInvalidArgument, "an empty request");
  RETURN_IF_ERROR(ParseTarget(out));
  return out;
}

StatusOr<HttpRequest> ReadHttpRequest(int fd, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  std::string text;
  while (true) {
    if (const size_t end = text.find(kHeadEnd); end != std::string::npos) {
      ASSIGN_OR_RETURN(HttpRequest request,
                       ParseHttpRequest(std::string_view(text).substr(0, end)));
      request.rest = text.substr(end + kHeadEnd.size());
      return request;
    }
    if (text.size() >= kMaxHead) {
      return base::Error(StatusCode::kResourceExhausted,
                         "the request's head is longer than {} bytes", kMaxHead);
    }
    pollfd item{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&item, 1, PollTime(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return base::Error(StatusCode::kInvalidArgument, "no whole request in time");
    char block[4096];
    const ssize_t size = recv(fd, block, std::min(sizeof(block), kMaxHead - text.size()), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      return text.empty() ? base::Error(StatusCode::kCancelled, "no request")
                          : base::Error(StatusCode::kInvalidArgument, "half a request");
    }
    text.append(block, static_cast<size_t>(size));
  }
}

Status SendAll(int fd, std::string_view bytes, milliseconds timeout) {
  auto deadline = steady_clock::now() + timeout;
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      deadline = steady_clock::now() + timeout;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      return base::Error(StatusCode::kUnavailable, "the peer is gone");
    }
    pollfd item{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready = poll(&item, 1, PollTime(deadline));
    if (ready == 0) return base::Error(StatusCode::kUnavailable, "the peer takes nothing");
  }
  return base::OkStatus();
}

std::string HttpError(const Status& status) {
  const auto [code, reason] = CodeAndReason(status.code());
  const std::string body = base::json::Dump({{"kind", "Status"},
                                             {"apiVersion", "v1"},
                                             {"metadata", base::Json::object()},
                                             {"status", "Failure"},
                                             {"message", std::string(base::Message(status))},
                                             {"reason", std::string(reason)},
                                             {"code", code}});
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      code, reason, body.size(), body);
}

std::string HttpChunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace berth::node
