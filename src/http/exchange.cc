#include "http/exchange.h"

#include <algorithm>

namespace berth::http {

Exchange::Exchange(std::weak_ptr<ExchangeHost> host, Request request)
    : host_(std::move(host)), request_(std::move(request)) {}

std::shared_ptr<Exchange> Exchange::NewHandle(const std::shared_ptr<Exchange>& exchange) {
  return {exchange.get(), [exchange](Exchange*) { exchange->AnswerAbandoned(); }};
}

namespace {

constexpr size_t kMaxWarnings = 64;
// Warnings are short because clients bound the size of a head.
constexpr size_t kMaxWarningBytes = 256;

std::string MakeWarningHeader(std::string_view text) {
  std::string out = "299 - \"";
  for (const char c : text.substr(0, kMaxWarningBytes)) {
    if (c == '"' || c == '\\') out += '\\';
    // A header is one line of printable ASCII, because proxies may refuse other characters.
    if (c >= ' ' && c <= '~') out += c;
  }
  return out + "\"";
}

}  // namespace

void Exchange::AddWarning(std::string_view text) {
  std::string header = MakeWarningHeader(text);
  base::MutexLock lock(mutex_);
  if (warnings_.size() == kMaxWarnings ||
      std::find(warnings_.begin(), warnings_.end(), header) != warnings_.end()) {
    return;
  }
  warnings_.push_back(std::move(header));
}

std::vector<std::string> Exchange::TakeWarnings() {
  base::MutexLock lock(mutex_);
  return std::exchange(warnings_, {});
}

void Exchange::AnswerAbandoned() {
  {
    base::MutexLock lock(mutex_);
    if (ended_) return;  // the usual case: the handler has answered
  }
  EndStream();
  const auto host = host_.lock();
  if (!host) return;  // the client is gone
  const Refusal refusal{.code = 500, .message = "the request ended without an answer"};
  Reply(host->RenderRefusal(refusal).value_or(Response{.code = refusal.code}));
}

void Exchange::Wake() {
  if (const auto host = host_.lock()) host->Wake();
}

void Exchange::Enqueue(Frame frame) {
  queued_bytes_ += frame->size();
  ++queued_frames_;
  pending_.frames.push_back(std::move(frame));
}

void Exchange::Reply(const Response& response) {
  {
    base::MutexLock lock(mutex_);
    if (answered_ || over_) return;
    answered_ = ended_ = true;
    Enqueue(MakeFrame(EncodeResponse(response, request_.wants_close, request_.is_head())));
    pending_.end = true;
    pending_.end_by_close = request_.wants_close;
  }
  Wake();
}

void Exchange::StartStream(const Response& head) {
  {
    base::MutexLock lock(mutex_);
    if (answered_ || over_) return;
    answered_ = streaming_ = true;
    Enqueue(MakeFrame(EncodeStreamHead(head, request_.wants_close)));
    if (request_.is_head()) {  // the client asked for the head only
      ended_ = pending_.end = true;
      pending_.end_by_close = request_.wants_close;
    }
  }
  Wake();
}

void Exchange::AllowPauses() {
  base::MutexLock lock(mutex_);
  may_pause_ = true;
}

bool Exchange::Push(const Frame& frame) {
  {
    base::MutexLock lock(mutex_);
    if (over_ || ended_) return false;
    // A single frame may be larger than the bound, because one object may hold much data.
    if (queued_frames_ >= kMaxQueuedFrames ||
        (queued_frames_ > 0 && queued_bytes_ + frame->size() > kMaxQueuedBytes)) {
      ended_ = true;
      Enqueue(MakeFrame(std::string(kLastChunk)));
      pending_.end = true;
    } else {
      Enqueue(frame);
    }
  }
  Wake();
  base::MutexLock lock(mutex_);
  return !ended_;
}

bool Exchange::PushPage(const Frame& frame) {
  {
    base::MutexLock lock(mutex_);
    if (over_ || ended_) return false;
    Enqueue(frame);
  }
  Wake();
  return true;
}

void Exchange::EndStream() {
  {
    base::MutexLock lock(mutex_);
    if (over_ || ended_ || !answered_) return;
    ended_ = true;
    Enqueue(MakeFrame(std::string(kLastChunk)));
    pending_.end = true;
    pending_.end_by_close = request_.wants_close;
  }
  Wake();
}

void Exchange::BreakStream() {
  {
    base::MutexLock lock(mutex_);
    if (over_ || ended_ || !answered_) return;
    ended_ = pending_.broken = true;
  }
  Wake();
}

bool Exchange::over() {
  base::MutexLock lock(mutex_);
  return over_ || ended_;
}

void Exchange::Proxy(ProxyTarget target) {
  {
    base::MutexLock lock(mutex_);
    if (answered_ || over_) return;
    answered_ = ended_ = streaming_ = true;
    pending_.proxy = std::make_unique<ProxyTarget>(std::move(target));
  }
  Wake();
}

void Exchange::OnOver(std::function<void()> callback) {
  {
    base::MutexLock lock(mutex_);
    if (!over_) {
      on_over_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Exchange::OnDrained(std::function<void()> callback) {
  {
    base::MutexLock lock(mutex_);
    if (over_) return;
    pending_.on_drained = std::move(callback);
  }
  Wake();
}

Exchange::Pending Exchange::TakePending() {
  base::MutexLock lock(mutex_);
  if (answered_) pending_.user = request_.user;
  return std::exchange(pending_, Pending{});
}

bool Exchange::streaming() {
  base::MutexLock lock(mutex_);
  return streaming_;
}

bool Exchange::may_pause() {
  base::MutexLock lock(mutex_);
  return may_pause_;
}

void Exchange::CountSent(size_t frames, size_t bytes) {
  base::MutexLock lock(mutex_);
  queued_frames_ -= frames;
  queued_bytes_ -= bytes;
}

void Exchange::MarkOver() {
  std::function<void()> callback;
  Pending dropped;
  {
    base::MutexLock lock(mutex_);
    if (over_) return;
    over_ = true;
    callback.swap(on_over_);
    dropped = std::exchange(pending_, Pending{});
  }
  if (callback) callback();
}

}  // namespace berth::http
