#include "apiserver/local_transport.h"

#include <unistd.h>

#include <charconv>

#include "apiserver/formats/kube_status.h"
#include "http/server.h"
#include "kube/http/http_status.h"
#include "kube/send_guard.h"

namespace berth::apiserver {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The name by which error messages call the server.
constexpr std::string_view kServerName = "this process";
constexpr size_t kMaxErrorBody = 64 * 1024;

std::optional<std::chrono::seconds> ParseSeconds(std::string_view text) {
  int64_t seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc() || seconds <= 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

Status Annotate(const Status& status, const kube::HttpRequest& request) {
  return base::Annotate(status, fmt::format("{}: API server in {}", request.ToText(), kServerName));
}

Status MakeTooLargeError(const kube::HttpRequest& request, size_t most) {
  return Error(StatusCode::kResourceExhausted, "{}: the answer exceeds {} bytes", request.ToText(),
               most);
}

}  // namespace

LocalTransport::LocalTransport(RequestRouter& router, const HttpFront& front, base::Semaphore& runs,
                               const LocalClientOptions& options)
    : router_(router),
      front_(front),
      runs_(runs),
      options_(options),
      user_(front.FindProcessUser(geteuid())) {}

http::Request LocalTransport::MakeRequest(const kube::HttpRequest& request) const {
  http::Request made{.method = request.method,
                     .target = request.target,
                     .headers = {{"Host", "localhost"},
                                 {"Accept", request.accept},
                                 {"User-Agent", options_.requests.user_agent}},
                     .body = request.body,
                     .user = user_,
                     .known = user_,
                     .local = true};
  if (!request.content_type.empty()) {
    made.headers.emplace_back("Content-Type", request.content_type);
  }
  if (!options_.impersonate_user.empty()) {
    made.headers.emplace_back("Impersonate-User", options_.impersonate_user);
  }
  for (const std::string& group : options_.impersonate_groups) {
    made.headers.emplace_back("Impersonate-Group", group);
  }
  return made;
}

StatusOr<base::Semaphore::Permit> LocalTransport::WaitForPermit(Time deadline,
                                                                const std::stop_token& stop) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::min(deadline, std::chrono::steady_clock::now() + options().request_timeout) -
      std::chrono::steady_clock::now());
  base::Semaphore::Permit permit = runs_.Acquire(left, stop);
  if (stop.stop_requested()) return Error(StatusCode::kCancelled, "the stream was stopped");
  if (permit == nullptr) {
    return Error(StatusCode::kDeadlineExceeded,
                 "other requests run, and none of them ended in time");
  }
  return permit;
}

std::unique_ptr<http::LocalCall> LocalTransport::BeginCall(const kube::HttpRequest& request,
                                                           base::Semaphore::Permit /*permit*/) {
  return std::make_unique<http::LocalCall>(
      front_, MakeRequest(request), [&](std::shared_ptr<http::Exchange> exchange) {
        const size_t most = http::Limits().max_body;
        if (exchange->request().body.size() <= most) return router_.Serve(exchange);
        ReplyError(*exchange,
                   KubeError(Reason::kRequestEntityTooLarge,
                             fmt::format("Request entity too large: limit is {}", most)));
      });
}

StatusOr<kube::HttpAnswer> LocalTransport::PerformRequest(const kube::HttpRequest& request,
                                                          Time deadline) {
  auto permit = WaitForPermit(deadline, {});
  if (!permit.ok()) return Annotate(permit.status(), request);
  // After the wait, which may have been long.
  const kube::SendGuard* guard = kube::SendGuard::Current();
  if (guard != nullptr) {
    RETURN_IF_ERROR_WITH(guard->CheckMaySend(), request.ToText());
    deadline = guard->LimitDeadline(deadline);
  }
  if (deadline <= std::chrono::steady_clock::now()) {
    return Error(StatusCode::kDeadlineExceeded, "{}: no time is left for the request",
                 request.ToText());
  }
  const auto call = BeginCall(request, *std::move(permit));
  const size_t most = std::min(options().max_body_bytes, request.max_answer_bytes);
  kube::HttpAnswer answer;
  while (!call->ended()) {
    if (const Status read = call->ReadMore(deadline, answer.body); !read.ok()) {
      return Annotate(read, request);
    }
    if (answer.body.size() > most) return MakeTooLargeError(request, most);
  }
  answer.code = call->code();
  answer.retry_after = ParseSeconds(call->Header("Retry-After"));
  return answer;
}

Status LocalTransport::StreamResponse(const kube::HttpRequest& request, std::stop_token stop,
                                      Time deadline, const Consume& consume) {
  const Time answer_by = std::chrono::steady_clock::now() + options().request_timeout;
  auto permit = WaitForPermit(deadline, stop);
  if (!permit.ok()) return Annotate(permit.status(), request);
  const auto begun = BeginCall(request, *std::move(permit));
  http::LocalCall& call = *begun;
  const std::stop_callback wake(stop, [&] { call.Stop(); });
  std::string received;
  while (!call.ended()) {
    const Time wake_by = call.code() == 0 ? std::min(deadline, answer_by) : deadline;
    const Status read = call.ReadMore(wake_by, received);
    if (stop.stop_requested()) {
      return Error(StatusCode::kCancelled, "{}: the stream was stopped", request.ToText());
    }
    if (!read.ok()) return Annotate(read, request);
    if (call.code() == 200 && !received.empty()) {
      ASSIGN_OR_RETURN(const bool more, consume(received));
      if (!more) return base::OkStatus();
    } else if (received.size() > kMaxErrorBody) {
      break;
    }
    if (received.size() > options().max_body_bytes) {
      return MakeTooLargeError(request, options().max_body_bytes);
    }
  }
  if (call.code() == 200) return base::OkStatus();
  return kube::StatusFromHttp(call.code(), std::string_view(received).substr(0, kMaxErrorBody),
                              request.ToText());
}

}  // namespace berth::apiserver
