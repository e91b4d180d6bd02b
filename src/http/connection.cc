#include "http/connection.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/log.h"
#include "http/server.h"
#include "http/upstream.h"

namespace berth::http {
using State = IoResult::State;

namespace {

// Small frames are gathered up to this size and sent in one TLS record or segment.
constexpr size_t kGatherBytes = 16 * 1024;
// How many bytes of the next request are read while the current one is being answered.
constexpr size_t kMaxPipelined = 64 * 1024;
// After this many reads from a lingering connection it is closed.
constexpr size_t kMaxRefusedReads = 256;

}  // namespace

Connection::Connection(Server& server, Socket socket, bool tls, std::shared_ptr<const User> user)
    : server_(server),
      tls_(tls),
      socket_(std::move(socket)),
      channel_(socket_.native_handle()),
      user_(std::move(user)),
      known_(user_),
      reader_({.max_head = server.limits().max_head,
               .max_body = server.limits().max_body,
               .http_1_0 = server.limits().http_1_0}) {}

Connection::~Connection() = default;

void Connection::Start() {
  if (tls_) {
    deadline_ = std::chrono::steady_clock::now() + server_.limits().handshake;
    AwaitHello();
  } else {
    AwaitRequest();
    WaitRead();
  }
}

void Connection::AwaitRequest() {
  phase_ = Phase::kReading;
  server_.SetStage(*this, Stage::kWaiting);
  const Limits& limits = server_.limits();
  deadline_ = std::chrono::steady_clock::now() +
              (reader_.idle() && !limits.one_request ? limits.idle : limits.request);
}

void Connection::Wake() { server_.WakeLater(shared_from_this()); }

void Connection::AwaitHello() {
  if (!channel_.HelloArrived()) return WaitRead();
  server_.BeginHandshakeLater(shared_from_this());
}

void Connection::BeginHandshake() {
  SslPtr ssl = server_.MakeSsl(socket_.native_handle());
  if (!ssl) return Close();
  channel_.StartTls(std::move(ssl));
  Handshake();
}

void Connection::Handshake() {
  const IoResult result = channel_.Handshake();
  switch (result.state) {
    case State::kDone:
      return OnHandshake();
    case State::kWantRead:
      return WaitRead();
    case State::kWantWrite:
      return WaitWrite();
    default:
      return Close();
  }
}

void Connection::OnHandshake() {
  // The handshake is something that the client completed, so a silence begins anew.
  server_.SetStage(*this, Stage::kWorking);
  user_ = server_.service().FindCertificateUser(channel_.ssl());
  if (user_ && !Promote(user_)) return Close();
  AwaitRequest();
  ReadSocket();
}

void Connection::WaitRead() {
  if (waiting_read_ || closed()) return;
  waiting_read_ = true;
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_read_ = false;
                       if (self->closed()) return;
                       if (error) return self->Close();
                       if (self->phase_ != Phase::kHandshake) return self->ReadSocket();
                       if (self->channel_.ssl() == nullptr) return self->AwaitHello();
                       self->Handshake();
                     });
}

// Reads on after the other connections have had their turn. It does not wait for the socket,
// because the TLS layer may hold bytes already.
void Connection::ReadLater() {
  if (waiting_read_ || closed()) return;
  waiting_read_ = true;
  boost::asio::post(server_.loop(), [self = shared_from_this()] {
    self->waiting_read_ = false;
    if (!self->closed()) self->ReadSocket();
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
                       self->WriteQueued();
                     });
}

// Closes the connection when the client has closed both directions. It waits for the hang-up,
// because a read that has met the end of the first direction does not show the second.
void Connection::WaitHangup() {
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](
                                             const boost::system::error_code&) { self->Close(); });
}

// Reads until the socket has no more bytes. While a request is being answered, at most
// kMaxPipelined bytes of the next one are read. Of a proxied exchange, Upstream::kBytesPerTurn are
// read in one turn of the loop.
void Connection::ReadSocket() {
  const std::span<char> scratch = server_.scratch();
  size_t refused_reads = 0;
  size_t proxied = 0;
  while (!closed() && !eof_) {
    if (phase_ == Phase::kJudging) return;
    if (phase_ == Phase::kBusy && reader_.waiting() >= kMaxPipelined) return;
    if (phase_ == Phase::kProxying && upstream_->full()) return;
    if (proxied >= Upstream::kBytesPerTurn) return ReadLater();
    const IoResult result = channel_.Read(scratch.data(), scratch.size());
    switch (result.state) {
      case State::kDone:
        if (phase_ == Phase::kLingering && ++refused_reads > kMaxRefusedReads) return Close();
        if (phase_ == Phase::kProxying) proxied += result.bytes;
        OnBytes(std::string_view(scratch.data(), result.bytes));
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
      if (reader_.idle() && !server_.limits().one_request) {
        deadline_ = std::chrono::steady_clock::now() + server_.limits().request;
      }
      server_.SetStage(*this, Stage::kPartial);
      reader_.Append(bytes);
      return ParseRequest();
    case Phase::kBusy:
      return reader_.Append(bytes);
    case Phase::kProxying:
      if (server_.limits().quiet) moved_ = std::chrono::steady_clock::now();
      return upstream_->Send(bytes);
    default:
      return;  // lingering: the bytes are discarded, because unread ones would reset the connection
  }
}

void Connection::OnEof() {
  eof_ = true;
  if (server_.limits().half_close && (phase_ == Phase::kBusy || phase_ == Phase::kProxying)) {
    if (phase_ == Phase::kProxying) upstream_->EndSending();
    return WaitHangup();
  }
  // A client that sent a whole request and then its FIN still gets a plain answer. A stream or a
  // proxied exchange is closed, because it would run on without a reader.
  if (phase_ == Phase::kBusy && end_after_out_) return;
  if (phase_ == Phase::kBusy && !exchange_->streaming()) return;
  Close();
}

void Connection::ParseRequest() {
  switch (reader_.Next()) {
    case RequestReader::Result::kRequest:
      return DispatchRequest();
    case RequestReader::Result::kRefused:
      return RefuseRequest(reader_.refusal());
    case RequestReader::Result::kHead:
      if (AdmitHead()) ReceiveBody();
      return;
    case RequestReader::Result::kMore:
      return AwaitBytes();
  }
}

void Connection::ReceiveBody() {
  // The memory is reserved before the reader takes it.
  AwaitBytes();
  if (phase_ == Phase::kReading) ParseRequest();
}

// Makes ready to read the rest of a request.
void Connection::AwaitBytes() {
  if (!server_.ReserveMemory(*this, reader_.memory())) {
    return RefuseRequest(
        {.code = 429,
         .message = "the server is busy with other large requests, please try again later"});
  }
  if (!reader_.idle()) server_.SetStage(*this, Stage::kPartial);
  if (reader_.TakeExpectation()) {
    out_.push_back(MakeFrame("HTTP/1.1 100 Continue\r\n\r\n"));
    WriteQueued();
  }
}

void Connection::DispatchRequest() {
  Request request = reader_.TakeRequest();
  NameSender(request);
  request.wants_close |= retired_ || server_.limits().one_request;
  phase_ = Phase::kBusy;
  server_.SetStage(*this, Stage::kWorking);
  deadline_ = Time::max();
  judge_stream_ = false;
  exchange_ = std::make_shared<Exchange>(weak_from_this(), std::move(request));
  server_.service().Handle(Exchange::NewHandle(exchange_));
}

std::optional<Response> Connection::RenderRefusal(const Refusal& refusal) const {
  return server_.service().RenderRefusal(refusal);
}

// Answers a request that cannot become an exchange, and then closes the connection.
void Connection::RefuseRequest(const Refusal& refusal) {
  auto response = RenderRefusal(refusal);
  if (!response) return Close();
  if (refusal.code == 429) response->headers.emplace_back("Retry-After", "1");
  AnswerAndClose(*response);
}

void Connection::AnswerAndClose(const Response& response) {
  out_.push_back(MakeFrame(EncodeResponse(response, true)));
  reader_.Clear();
  server_.ReserveMemory(*this, 0);
  phase_ = Phase::kBusy;
  end_after_out_ = close_after_out_ = true;
  WriteQueued();
}

void Connection::SendPending() {
  if (closed() || !exchange_) return;
  Exchange::Pending pending = exchange_->TakePending();
  if (pending.broken) return Close();
  if (judge_stream_) JudgeStream();
  if (pending.user && !Promote(pending.user)) {
    if (!pending.end) return Close();
    close_after_out_ = true;
  }
  if (pending.proxy) return StartProxy(std::move(pending.proxy));
  for (Frame& frame : pending.frames) out_.push_back(std::move(frame));
  if (pending.on_drained) on_drained_ = std::move(pending.on_drained);
  end_after_out_ |= pending.end;
  close_after_out_ |= pending.end_by_close;
  if (eof_ && !end_after_out_ && !server_.limits().half_close)
    return Close();  // the stream would have no reader
  WriteQueued();
}

void Connection::WriteQueued() {
  if (const auto& answer = server_.limits().answer;
      answer && phase_ == Phase::kBusy && out_first_ < out_.size()) {
    answer_deadline_ = std::min(answer_deadline_, std::chrono::steady_clock::now() + *answer);
  }
  while (!closed()) {
    if (out_first_ == out_.size()) break;
    if (!WriteSome()) return;
  }
  if (closed()) return;
  out_.clear();
  out_first_ = out_offset_ = 0;
  if (phase_ == Phase::kProxying) {
    deadline_ = Time::max();
    return upstream_->ended() ? Linger() : upstream_->ResumeReading();
  }
  if (phase_ == Phase::kBusy) deadline_ = Time::max();
  if (end_after_out_) return FinishAnswer();
  if (on_drained_) std::exchange(on_drained_, nullptr)();
  // While the handler works, a read only detects that the client went away, or reads its next
  // request early. ReadSocket is called at once because the TLS layer may already hold bytes, for
  // which the socket does not become readable.
  if (phase_ == Phase::kBusy && !waiting_read_) ReadSocket();
}

// Writes the next bytes. Returns false if the socket takes no more now or the connection is closed.
bool Connection::WriteSome() {
  const std::string_view first = std::string_view(*out_[out_first_]).substr(out_offset_);
  std::string gathered;
  std::string_view bytes = first;
  if (first.size() < kGatherBytes && out_first_ + 1 < out_.size()) {
    gathered = first;
    for (size_t i = out_first_ + 1; i < out_.size() && gathered.size() < kGatherBytes; ++i) {
      gathered += std::string_view(*out_[i]).substr(0, kGatherBytes - gathered.size());
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
        deadline_ = std::chrono::steady_clock::now() + FindUnreadLimit();
        server_.SetStage(*this, Stage::kPartial);
      }
      WaitWrite();
      return false;
    default:
      Close();
      return false;
  }
}

// Returns for how long the client may read nothing of the answer that is being sent.
std::chrono::milliseconds Connection::FindUnreadLimit() {
  const bool pause = phase_ == Phase::kProxying || (exchange_ && exchange_->may_pause());
  return pause ? server_.limits().pause : server_.limits().stall;
}

// Removes `bytes` that were written from out_.
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
  // The client reads, so the stall timer is reset.
  if (phase_ == Phase::kBusy || phase_ == Phase::kProxying) {
    deadline_ = Time::max();
    server_.SetStage(*this, Stage::kWorking);
  }
  if (exchange_ && phase_ == Phase::kBusy) exchange_->CountSent(frames, bytes);
}

void Connection::FinishAnswer() {
  EndExchange();
  answer_deadline_ = Time::max();
  end_after_out_ = false;
  if (close_after_out_ || retired_ || eof_) return Linger();
  AwaitRequest();
  ParseRequest();
  if (phase_ == Phase::kReading && !waiting_read_) ReadSocket();
}

// Shuts down writing first and closes later, because the kernel resets a connection that is closed
// with unread bytes, and the client could then not read the answer.
void Connection::Linger() {
  channel_.ShutdownWrite();
  if (upstream_) upstream_->Close();
  if (eof_) return Close();
  phase_ = Phase::kLingering;
  server_.SetStage(*this, Stage::kPartial);
  deadline_ = std::chrono::steady_clock::now() + server_.limits().linger;
  if (!waiting_read_ || retired_) ReadSocket();
  if (retired_)
    Close();  // ReadSocket has discarded all bytes, so the close does not reset the connection
}

void Connection::EndExchange() {
  server_.ReserveMemory(*this, 0);
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->MarkOver();
}

void Connection::RetireConnection() {
  retired_ = true;
  const bool answers = phase_ == Phase::kBusy || phase_ == Phase::kProxying;
  if (!answers) Close();
}

void Connection::CloseIfLate(Time now) {
  if (const auto& quiet = server_.limits().quiet;
      quiet && phase_ == Phase::kProxying && now - moved_ >= *quiet) {
    LOG_INFO("{}: closed a stream in which no byte passed for {} s", server_.name(),
             std::chrono::duration_cast<std::chrono::seconds>(*quiet).count());
    return Close();
  }
  if (now < std::min(deadline_, answer_deadline_)) return;
  if (phase_ == Phase::kReading && !reader_.idle())
    LOG_DEBUG("{}: closed the connection of a client that sent only a part of its request",
              server_.name());
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
  server_.RemoveConnection(self);
}

void Connection::StartProxy(std::unique_ptr<ProxyTarget> target) {
  // The callbacks may use `this`, because the upstream makes none after this connection is gone.
  upstream_ = std::make_unique<Upstream>(
      server_.loop(), weak_from_this(),
      Upstream::Callbacks{
          .on_bytes = [this](std::string bytes) { return SendToClient(std::move(bytes)); },
          .on_writable =
              [this] {
                if (!closed() && !waiting_read_) ReadSocket();
              },
          .on_end =
              [this] {
                if (phase_ == Phase::kProxying) WriteQueued();
              }});
  const bool connected = target->stream.valid() ? upstream_->AdoptStream(std::move(target->stream))
                                                : upstream_->Connect(target->socket);
  if (!connected) {
    upstream_.reset();
    out_.push_back(MakeFrame(EncodeResponse(target->failure, true)));
    end_after_out_ = close_after_out_ = true;
    return WriteQueued();
  }
  phase_ = Phase::kProxying;
  moved_ = std::chrono::steady_clock::now();
  upstream_->Send(target->head);
  if (reader_.waiting() > 0) upstream_->Send(reader_.TakeRest());
  if (eof_ && server_.limits().half_close) upstream_->EndSending();
  upstream_->Read();
  if (phase_ == Phase::kProxying && !waiting_read_) ReadSocket();
}

// Queues bytes of the far side. Returns whether all of them were written.
bool Connection::SendToClient(std::string bytes) {
  if (server_.limits().quiet) moved_ = std::chrono::steady_clock::now();
  out_.push_back(MakeFrame(std::move(bytes)));
  WriteQueued();
  return out_.empty();
}

}  // namespace berth::http
