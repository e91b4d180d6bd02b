// One client connection: it reads requests one after the other, passes each to the Service, and
// writes the answer.
//
//               judging
//   credentials,  │ ▲ │ it is judged
//   no body came  │ │ │ (refused: busy)
//                 │ │ ▼
//   handshake ──▶ reading ── a request is complete or faulty ──▶ busy ── Proxy ──▶ proxying
//                    ▲                                           │  │                 │
//                    └─────── answered, and to be kept ──────────┘  │ answered, and   │ the target
//                                                                   │ to be closed    │ has ended
//                                                                   ▼                 │
//   closed ◀── the client's end was read, or time is up ──────── lingering ◀──────────┘
//
// An owner's request is not judged. While one is judged, nothing is read from the client. Without
// TLS a connection begins in reading. From each state it goes to closed when it fails or its
// deadline passes.
//
// Belongs to the event loop's thread; only Wake and RenderRefusal may be called from others. An
// idle connection keeps no buffers: the loop's one scratch buffer serves all reads.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/channel.h"
#include "http/exchange.h"
#include "http/request_reader.h"
#include "http/seats.h"
#include "http/service.h"

namespace berth::http {

class Server;
class Upstream;

class Connection : public ExchangeHost,
                   public Seat,
                   public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // With `tls`, the client's certificate gives the user. Otherwise the user is `user`, which may be
  // null.
  Connection(Server& server, Socket socket, bool tls, std::shared_ptr<const User> user);
  ~Connection() override;

  void Start();
  // Begins the TLS handshake. The server calls it after BeginHandshakeLater.
  void BeginHandshake();
  void Wake() override;
  std::optional<Response> RenderRefusal(const Refusal& refusal) const override;
  // Sends what the exchange has queued. The server calls it on the event loop after Wake.
  void SendPending();
  // Closes the connection if its deadline has passed.
  void CloseIfLate(Time now);
  // Reads no new request. The current answer is still sent, and then the connection is closed
  // without lingering.
  void RetireConnection();
  // Closes the connection soon if it carries a stream or proxied exchange whose sender's
  // credentials are not valid any more. A request that is being handled is judged if it becomes
  // one.
  void JudgeStream();
  void Close();
  bool closed() const { return phase_ == Phase::kClosed; }

 private:
  enum class Phase { kHandshake, kReading, kJudging, kBusy, kProxying, kLingering, kClosed };

  void AwaitHello();
  void Handshake();
  void OnHandshake();
  void WaitRead();
  void ReadLater();
  void WaitWrite();
  void WaitHangup();
  void ReadSocket();
  void OnBytes(std::string_view bytes);
  void OnEof();
  void ParseRequest();
  // Decides about a request of which only the head has arrived. False: it is refused, or its
  // credentials are being judged.
  bool AdmitHead();
  // Asks the service about `request`, and calls `done` on the event loop unless the connection is
  // gone.
  void Identify(Request request, void (Connection::*done)(Identity));
  bool Promote(const std::shared_ptr<const User>& user);
  void NameSender(Request& request) const;
  void OnIdentified(Identity identity);
  void OnJudged(Identity identity);
  // Reads on in the body of an admitted request.
  void ReceiveBody();
  void AwaitBytes();
  void DispatchRequest();
  void RefuseRequest(const Refusal& refusal);
  void AnswerAndClose(const Response& response);
  void AwaitRequest();
  void WriteQueued();
  bool WriteSome();
  std::chrono::milliseconds FindUnreadLimit();
  void DropSent(size_t bytes);
  void FinishAnswer();
  void Linger();
  void EndExchange();

  void StartProxy(std::unique_ptr<ProxyTarget> target);
  bool SendToClient(std::string bytes);

  Server& server_;
  const bool tls_;
  Socket socket_;
  Channel channel_;
  std::shared_ptr<const User> user_;
  std::shared_ptr<const User> known_;  // as Request::known
  Phase phase_ = Phase::kHandshake;
  Time deadline_;
  Time answer_deadline_ = Time::max();  // for the whole of the current answer
  bool waiting_read_ = false;  // an async_wait for a readable socket, or ReadLater, is under way
  bool waiting_write_ = false;
  bool retired_ = false;       // RetireConnection was called
  bool eof_ = false;           // the client's end was read
  bool judge_stream_ = false;  // the current request is judged when its answer begins

  RequestReader reader_;

  std::shared_ptr<Exchange> exchange_;
  std::vector<Frame> out_;
  size_t out_first_ = 0;          // index of the first unsent frame
  size_t out_offset_ = 0;         // bytes of it that are sent
  bool end_after_out_ = false;    // the answer ends with out_
  bool close_after_out_ = false;  // the connection is closed after that
  std::function<void()> on_drained_;

  std::unique_ptr<Upstream> upstream_;
  Time moved_;  // when a byte of the proxied exchange passed; kept with Limits::quiet only
};

}  // namespace berth::http
