#include "apiserver/connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>

#include "apiserver/http_server.h"
#include "apiserver/kube_status.h"
#include "apiserver/tls.h"
#include "apiserver/upstream.h"
#include "base/log.h"

namespace berth::apiserver {
namespace http = boost::beast::http;
using State = IoResult::State;

namespace {

// Small frames go out together in one TLS record or segment.
constexpr size_t kGather = 16 * 1024;
// Bytes of a next request that are taken in while the present one is answered.
constexpr size_t kMaxPipelined = 64 * 1024;
// A refused client may still send this much before the connection is cut.
constexpr size_t kMaxRefusedReads = 256;

std::string ToStd(boost::beast::string_view s) { return {s.data(), s.size()}; }

}  // namespace

Connection::Connection(HttpServer& server, Socket socket, SslPtr ssl,
                       std::shared_ptr<const User> user)
    : server_(server),
      socket_(std::move(socket)),
      channel_(socket_.native_handle(), std::move(ssl)),
      user_(std::move(user)) {}

Connection::~Connection() = default;

void Connection::Start() {
  const auto now = std::chrono::steady_clock::now();
  if (channel_.secure()) {
    deadline_ = now + server_.limits().handshake;
    Handshake();
  } else {
    phase_ = Phase::kReading;
    deadline_ = now + server_.limits().idle;
    WaitRead();
  }
}

void Connection::Wake() { server_.WakeLater(shared_from_this()); }

void Connection::Handshake() {
  const IoResult result = channel_.Handshake();
  switch (result.state) {
    case State::kDone:
      user_ = PeerUser(channel_.ssl());
      if (!user_) return Close();
      phase_ = Phase::kReading;
      deadline_ = std::chrono::steady_clock::now() + server_.limits().idle;
      return Read();
    case State::kWantRead:
      return WaitRead();
    case State::kWantWrite:
      return WaitWrite();
    default:
      return Close();
  }
}

void Connection::WaitRead() {
  if (waiting_read_ || closed()) return;
  waiting_read_ = true;
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_read_ = false;
                       if (self->closed()) return;
                       if (error) return self->Close();
                       if (self->phase_ == Phase::kHandshake) return self->Handshake();
                       self->Read();
                     });
}

void Connection::WaitWrite() {
  if (waiting_write_ || closed()) return;
  waiting_write_ = true;
  socket_.async_wait(Socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_write_ = false;
                       if (self->closed()) return;
                       if (error) return self->Close();
                       if (self->phase_ == Phase::kHandshake) return self->Handshake();
                       self->Flush();
                     });
}

// Reads until nothing is left, or until a request is complete (what follows it then waits).
void Connection::Read() {
  std::string& scratch = server_.scratch();
  size_t refused_reads = 0;
  while (!closed() && !eof_) {
    if (phase_ == Phase::kBusy && in_.size() >= kMaxPipelined) return;
    if (phase_ == Phase::kProxying && upstream_->full()) return;
    const IoResult result = channel_.Read(scratch.data(), scratch.size());
    switch (result.state) {
      case State::kDone:
        if (phase_ == Phase::kLingering && ++refused_reads > kMaxRefusedReads) return Close();
        OnBytes(std::string_view(scratch).substr(0, result.bytes));
        break;
      case State::kWantRead:
        return WaitRead();
      case State::kWantWrite:
        return WaitWrite();
      case State::kEof:
        return OnEof();
      case State::kError:
        return Close();
    }
  }
}

void Connection::OnBytes(std::string_view bytes) {
  switch (phase_) {
    case Phase::kReading:
      if (in_.empty() && !parser_) {
        deadline_ = std::chrono::steady_clock::now() + server_.limits().request;
      }
      in_.append(bytes);
      return Parse();
    case Phase::kBusy:
      in_.append(bytes);
      return;
    case Phase::kProxying:
      return upstream_->Send(bytes);
    default:
      return;  // lingering: read to no purpose, so that the client can read our answer
  }
}

void Connection::OnEof() {
  eof_ = true;
  // A client that sent a whole request and then its FIN still gets a plain answer; a stream or a
  // proxied exchange would run on for nobody.
  if (phase_ == Phase::kBusy && end_after_out_) return;
  if (phase_ == Phase::kBusy && !exchange_->streaming()) return;
  Close();
}

void Connection::Parse() {
  while (phase_ == Phase::kReading && !in_.empty()) {
    if (!parser_) {
      parser_ = std::make_unique<Parser>();
      parser_->header_limit(static_cast<uint32_t>(server_.limits().max_head));
      parser_->body_limit(server_.limits().max_body);
      parser_->eager(true);
      checked_head_ = false;
    }
    boost::system::error_code error;
    const size_t used = parser_->put(boost::asio::buffer(in_), error);
    in_.erase(0, used);
    if (error == http::error::body_limit) {
      return Refuse(KubeError(Reason::kRequestEntityTooLarge,
                              fmt::format("Request entity too large: limit is {}",
                                          server_.limits().max_body)),
                    413);
    }
    if (error == http::error::header_limit) {
      return Refuse(KubeError(Reason::kBadRequest, "the request's head is too large"), 431);
    }
    if (error && error != http::error::need_more) {
      return Refuse(KubeError(Reason::kBadRequest,
                              fmt::format("malformed HTTP request: {}", error.message())),
                    400);
    }
    if (parser_->is_done()) return Dispatch();
    if (parser_->is_header_done() && !checked_head_) {
      checked_head_ = true;
      if (EqualsIgnoreCase(ToStd(parser_->get()[http::field::expect]), "100-continue")) {
        out_.push_back(MakeFrame("HTTP/1.1 100 Continue\r\n\r\n"));
        Flush();
      }
    }
    if (used == 0) break;
  }
  if (in_.empty()) in_ = std::string();
}

void Connection::Dispatch() {
  auto message = parser_->release();
  parser_.reset();
  if (in_.empty()) in_ = std::string();
  Request request;
  request.method = ToStd(message.method_string());
  request.target = ToStd(message.target());
  for (const auto& field : message.base()) {
    request.headers.emplace_back(ToStd(field.name_string()), ToStd(field.value()));
  }
  request.body = std::move(message.body());
  request.user = user_;
  request.wants_close = !message.keep_alive() || retired_;
  if (message.version() != 11) {
    return Refuse(KubeError(Reason::kBadRequest, "HTTP/1.1 is needed"), 505);
  }
  phase_ = Phase::kBusy;
  deadline_ = Time::max();
  exchange_ = std::make_shared<Exchange>(weak_from_this(), std::move(request));
  server_.Handle(Exchange::NewHandle(exchange_));
}

// Answers what cannot become an exchange, and closes.
void Connection::Refuse(const base::Status& status, int http_code) {
  Response response = ToResponse(status);
  response.code = http_code;
  out_.push_back(MakeFrame(EncodeResponse(response, true)));
  parser_.reset();
  in_ = std::string();
  phase_ = Phase::kBusy;
  end_after_out_ = close_after_out_ = true;
  Flush();
}

void Connection::Serve() {
  if (closed() || !exchange_) return;
  Exchange::Pending pending = exchange_->Take();
  if (pending.broken) return Close();
  if (pending.proxy) return StartProxy(std::move(pending.proxy));
  for (Frame& frame : pending.frames) out_.push_back(std::move(frame));
  if (pending.on_drained) on_drained_ = std::move(pending.on_drained);
  end_after_out_ |= pending.end;
  close_after_out_ |= pending.end_by_close;
  if (eof_ && !end_after_out_) return Close();  // a stream would run on for nobody
  Flush();
}

void Connection::Flush() {
  while (!closed()) {
    if (out_first_ == out_.size()) break;
    if (!WriteSome()) return;
  }
  if (closed()) return;
  out_.clear();
  out_first_ = out_offset_ = 0;
  if (phase_ == Phase::kProxying) {
    deadline_ = Time::max();
    return upstream_->ended() ? Linger() : upstream_->Drained();
  }
  if (phase_ == Phase::kBusy) deadline_ = Time::max();
  if (end_after_out_) return Answered();
  if (on_drained_) std::exchange(on_drained_, nullptr)();
  // From here on reads only tell that the client went away, or take in its next request early. A
  // TLS layer may also hold bytes already, for which no readiness comes.
  if (phase_ == Phase::kBusy && !waiting_read_) Read();
}

// Writes the next bytes; false if it has to wait or the connection is gone.
bool Connection::WriteSome() {
  const std::string_view first = std::string_view(*out_[out_first_]).substr(out_offset_);
  std::string gathered;
  std::string_view bytes = first;
  if (first.size() < kGather && out_first_ + 1 < out_.size()) {
    gathered = first;
    for (size_t i = out_first_ + 1; i < out_.size() && gathered.size() < kGather; ++i) {
      gathered += std::string_view(*out_[i]).substr(0, kGather - gathered.size());
    }
    bytes = gathered;
  }
  const IoResult result = channel_.Write(bytes);
  switch (result.state) {
    case State::kDone:
      DropSent(result.bytes);
      return true;
    case State::kWantRead:
    case State::kWantWrite:
      if (deadline_ == Time::max()) {
        deadline_ = std::chrono::steady_clock::now() + server_.limits().stall;
      }
      WaitWrite();
      return false;
    default:
      Close();
      return false;
  }
}

void Connection::DropSent(size_t bytes) {
  size_t frames = 0;
  for (size_t left = bytes; left > 0;) {
    const size_t rest = out_[out_first_]->size() - out_offset_;
    if (left < rest) {
      out_offset_ += left;
      break;
    }
    left -= rest;
    out_[out_first_++].reset();
    out_offset_ = 0;
    ++frames;
  }
  // It reads: a stall's time starts anew.
  if (phase_ == Phase::kBusy || phase_ == Phase::kProxying) deadline_ = Time::max();
  if (exchange_ && phase_ == Phase::kBusy) exchange_->Sent(frames, bytes);
}

void Connection::Answered() {
  EndExchange();
  end_after_out_ = false;
  if (close_after_out_ || retired_ || eof_) return Linger();
  phase_ = Phase::kReading;
  deadline_ = std::chrono::steady_clock::now() +
              (in_.empty() ? server_.limits().idle : server_.limits().request);
  Parse();
  if (phase_ == Phase::kReading && !waiting_read_) Read();
}

// Closes so that the client can still read the answer: a socket closed with unread bytes resets.
void Connection::Linger() {
  channel_.ShutdownWrite();
  if (upstream_) upstream_->Close();
  if (eof_) return Close();
  phase_ = Phase::kLingering;
  deadline_ = std::chrono::steady_clock::now() + server_.limits().linger;
  if (!waiting_read_) Read();
}

void Connection::EndExchange() {
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->Over();
}

void Connection::Retire() {
  retired_ = true;
  if (phase_ == Phase::kHandshake || phase_ == Phase::kReading) Close();
}

void Connection::CloseIfLate(Time now) {
  if (now < deadline_) return;
  if (phase_ == Phase::kReading && parser_)
    LOG_DEBUG("api: dropped a client that sent half a request");
  Close();
}

void Connection::Close() {
  if (closed()) return;
  const auto self = shared_from_this();  // callbacks may drop the last other reference
  phase_ = Phase::kClosed;
  EndExchange();
  on_drained_ = nullptr;
  if (upstream_) upstream_->Close();
  boost::system::error_code ignored;
  socket_.close(ignored);
  server_.Forget(self);
}

void Connection::StartProxy(std::unique_ptr<ProxyTarget> target) {
  // The upstream belongs to this connection and never calls after it is gone: `this` is safe.
  upstream_ = std::make_unique<Upstream>(
      server_.loop(), weak_from_this(),
      Upstream::Callbacks{
          .on_bytes = [this](std::string bytes) { return ToClient(std::move(bytes)); },
          .on_writable =
              [this] {
                if (!closed() && !waiting_read_) Read();
              },
          .on_end =
              [this] {
                if (phase_ == Phase::kProxying) Flush();
              }});
  if (!upstream_->Connect(target->socket)) {
    upstream_.reset();
    out_.push_back(MakeFrame(EncodeResponse(target->failure, true)));
    end_after_out_ = close_after_out_ = true;
    return Flush();
  }
  phase_ = Phase::kProxying;
  upstream_->Send(target->head);
  if (!in_.empty()) upstream_->Send(std::exchange(in_, std::string()));
  upstream_->Read();
  if (phase_ == Phase::kProxying && !waiting_read_) Read();
}

bool Connection::ToClient(std::string bytes) {
  out_.push_back(MakeFrame(std::move(bytes)));
  Flush();
  return out_.empty();
}

}  // namespace berth::apiserver
