#include "http/local_call.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>

namespace berth::http {

using base::Error;
using base::Status;
using base::StatusCode;

namespace {

// An answer may have 64 warnings of 256 bytes, which quoting can make twice as long.
constexpr uint32_t kMaxHead = 64 * 1024;

}  // namespace

// Wakes the thread that waits for the answer.
class LocalCall::Host : public ExchangeHost {
 public:
  explicit Host(const Service& service) : service_(service) {}

  void Wake() override {
    base::MutexLock lock(mutex_);
    woken_ = true;
    changed_.NotifyOne();
  }
  std::optional<Response> RenderRefusal(const Refusal& refusal) const override {
    return service_.RenderRefusal(refusal);
  }

  void Stop() {
    base::MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyOne();
  }

  // False: neither Wake nor Stop was called before `deadline`.
  bool WaitForWake(std::chrono::steady_clock::time_point deadline) {
    base::MutexLock lock(mutex_);
    while (!woken_ && !stopped_) {
      if (!changed_.WaitUntil(mutex_, deadline) && !woken_ && !stopped_) return false;
    }
    woken_ = false;
    return true;
  }

 private:
  const Service& service_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

LocalCall::LocalCall(const Service& service, Request request, const Serve& serve)
    : host_(std::make_shared<Host>(service)) {
  parser_.eager(true);
  parser_.body_limit(boost::none);  // the caller bounds what it keeps
  parser_.header_limit(kMaxHead);
  exchange_ = std::make_shared<Exchange>(host_, std::move(request));
  serve(Exchange::NewHandle(exchange_));
}

LocalCall::~LocalCall() { exchange_->MarkOver(); }

void LocalCall::Stop() { host_->Stop(); }

int LocalCall::code() const {
  return parser_.is_header_done() ? static_cast<int>(parser_.get().result_int()) : 0;
}

std::string_view LocalCall::Header(std::string_view name) {
  if (!parser_.is_header_done()) return {};
  const auto value = parser_.get()[boost::beast::string_view(name.data(), name.size())];
  return {value.data(), value.size()};
}

Status LocalCall::ReadMore(std::chrono::steady_clock::time_point deadline, std::string& body) {
  if (!host_->WaitForWake(deadline)) {
    return Error(StatusCode::kDeadlineExceeded, "the server did not answer in time");
  }
  Exchange::Pending pending = exchange_->TakePending();
  if (pending.broken) return Error(StatusCode::kUnavailable, "the server broke its answer off");
  if (pending.proxy != nullptr) {
    return Error(StatusCode::kUnimplemented, "another server would have to answer this request");
  }
  size_t bytes = 0;
  for (const Frame& frame : pending.frames) {
    bytes += frame->size();
    RETURN_IF_ERROR(Append(frame, body));
  }
  exchange_->CountSent(pending.frames.size(), bytes);
  ended_ |= pending.end;
  if (ended_) {
    exchange_->MarkOver();
  } else if (pending.on_drained) {
    pending.on_drained();
  }
  return base::OkStatus();
}

Status LocalCall::Append(const Frame& frame, std::string& body) {
  // The parser takes the end of a chunk only together with the beginning of the next one.
  std::string joined;
  if (!rest_.empty()) joined = std::exchange(rest_, {}) + *frame;
  std::string_view left = joined.empty() ? std::string_view(*frame) : std::string_view(joined);
  while (!left.empty()) {
    boost::system::error_code error;
    const size_t used = parser_.put(boost::asio::buffer(left.data(), left.size()), error);
    if (error && error != boost::beast::http::error::need_more) {
      return Error(StatusCode::kUnavailable, "the server's answer is malformed: {}",
                   error.message());
    }
    left.remove_prefix(used);
    if (used == 0) break;
  }
  rest_ = left;
  std::string& read = parser_.get().body();
  if (body.empty()) {
    body = std::exchange(read, {});
  } else {
    body += std::exchange(read, {});
  }
  return base::OkStatus();
}

}  // namespace berth::http
