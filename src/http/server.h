// The HTTP/1.1 server: a UNIX socket and a TCP port, with TLS or without, all connections on one
// event-loop thread. The TCP port has a gate (gate.h), which refuses clients that come too often.
//
// Its Service identifies the callers and answers the requests. Limits bounds the requests, and how
// long a connection may be idle, slow or stalled. A SeatTable (seats.h) shares connections and
// memory among the clients. The public functions are thread-safe, except that
// only one thread may call Stop or destroy the server.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "http/arrivals.h"
#include "http/channel.h"
#include "http/exchange.h"
#include "http/gate.h"
#include "http/peer.h"
#include "http/seats.h"
#include "http/service.h"
#include "http/tls.h"

namespace berth::http {

class Connection;

// Sizes are in bytes. A connection that exceeds a time is closed.
struct Limits {
  size_t max_head = 64 * 1024;
  size_t max_body = 3 * 1024 * 1024;
  // The connections, and the memory of all requests that are being read or answered.
  SeatLimits seats = {};
  // The new connections of a stranger's address or local user; root and the server's own user have
  // no limit.
  ArrivalLimits arrivals = {};
  std::chrono::milliseconds handshake{10'000};
  std::chrono::milliseconds request{30'000};  // from its first byte to its last
  std::chrono::milliseconds idle{180'000};    // between requests
  std::chrono::milliseconds stall{30'000};    // while the client reads nothing of its answer
  // In place of `stall` where the answer's source waits for the client (a proxied exchange, a
  // BlockingStream), because a person may pause such a stream. The default is that of the kubelet's
  // --streaming-connection-idle-timeout.
  std::chrono::milliseconds pause = std::chrono::hours(4);
  // While no byte of a proxied exchange passes in either direction. nullopt: no bound.
  std::optional<std::chrono::milliseconds> quiet = std::nullopt;
  // For the client to read a whole answer; nullopt: no bound while the client keeps reading.
  std::optional<std::chrono::milliseconds> answer = std::nullopt;
  // How long the server waits before the close for the client to read the answer and close first.
  std::chrono::milliseconds linger{2'000};
  // Each connection is closed after its first answer, and `request` counts from the start of the
  // connection.
  bool one_request = false;
  bool http_1_0 = false;  // accepts HTTP/1.0 requests as well
  // A client that shuts down its sending side keeps its stream or proxied exchange, and a proxied
  // exchange passes the end on. Set it only for UNIX sockets, because with TCP a client that is
  // gone looks the same.
  bool half_close = false;
};

class Server {
 public:
  struct Options {
    std::string name = "http";        // for log lines and the thread's name: "NAME-loop"
    std::string unix_socket = {};     // path; made with mode 0600. Empty: none
    std::string listen_address = {};  // an IP address; empty: none
    uint16_t port = 0;                // 0: any free port
    // A TCP socket that already listens; it is used instead of `listen_address`.
    base::UniqueFd listener = base::UniqueFd();
    Limits limits = {};
    // Counts strangers on this machine by their user (peer.h), and not by their address, of which
    // each user has many (127.0.0.0/8).
    bool local_clients_by_user = true;
    // Runs when the sockets are open and nothing is accepted yet, with the TCP port. Its error ends
    // Listen.
    std::function<base::Status(uint16_t port)> before_serving = nullptr;
    std::function<void()> on_tick = nullptr;  // runs each second on the event loop; must not block
  };

  // Opens the sockets and starts the event loop. The TCP port uses TLS if there is a `context`,
  // otherwise plain HTTP. Borrows `service`, which must outlive the server. INVALID_ARGUMENT: the
  // path, address or listener is wrong. FAILED_PRECONDITION: the path exists and is not a socket.
  // UNAVAILABLE: a socket cannot be opened.
  static base::StatusOr<std::unique_ptr<Server>> Listen(Options options, SslContextPtr context,
                                                        Service& service);
  ~Server();  // as Stop

  // The TCP port; 0: there is none.
  uint16_t port() const { return port_; }
  // Uses the certificates of `context` for new connections.
  void UseContext(SslContextPtr context);
  // Has Service::Identify judge the senders of all open streams and proxied exchanges anew, except
  // owners, and ends those for which it answers 401. Call it when credentials have ended.
  void JudgeStreams();
  // Accepts no more connections and reads no new requests. Returns when all answers have been sent,
  // at the latest after `grace`. It does not wait until clients that have their answers close.
  void Drain(std::chrono::milliseconds grace);
  // Closes all connections, ends the event loop and removes the UNIX socket. Further calls do
  // nothing.
  void Stop();

  size_t connections() const { return connection_count_.load(); }

 private:
  friend class Connection;
  Server(Options options, Service& service);

  base::Status OpenSockets(SslContextPtr context);
  base::Status OpenUnix();
  base::Status OpenTcp();
  base::Status AdoptListener();  // uses Options::listener
  void OpenGate(base::UniqueFd listener);
  void AcceptUnix();
  void AdmitUnix(boost::asio::generic::stream_protocol::socket socket);
  void AdmitTcp(base::UniqueFd socket, const std::string& key);
  // Gives the connection a seat and starts it, or closes it if there is none.
  void SeatConnection(std::shared_ptr<Connection> connection, ClientClass client,
                      const std::string& key);
  // Closes the connection that loses its seat by `offer`, if there is one. Returns whether the seat
  // is granted.
  bool AcceptOffer(const SeatTable::Offer& offer);
  // Runs each second: closes late connections and calls on_tick.
  void SweepConnections();
  // Gives memory back to the kernel after many connections have ended, or large requests.
  void ReleaseFreeMemory();

  // Connections call these.
  boost::asio::io_context& loop() { return loop_; }
  const Limits& limits() const { return options_.limits; }
  // Sets the bytes that the connection's request takes. If strangers hold too much, the longest
  // silent ones are closed first. Returns false if there are fewer left.
  bool ReserveMemory(Connection& connection, size_t bytes);
  // Makes a stranger's connection one of `user`. Returns false if that user has too many.
  bool PromoteConnection(Connection& connection, const User& user);
  void SetStage(Connection& connection, Seat::Stage stage);
  // Calls the connection's BeginHandshake in a later turn of the event loop. Each turn begins one
  // handshake, because it costs more than most requests, and serves all who are readable besides.
  void BeginHandshakeLater(std::shared_ptr<Connection> connection);
  void BeginNextHandshake();
  // A TLS object for a new connection; null if OpenSSL can make none.
  SslPtr MakeSsl(int fd);
  const std::string& name() const { return options_.name; }
  std::span<char> scratch() { return {scratch_.get(), kScratch}; }
  Service& service() { return service_; }
  // Calls the connection's SendPending on the event loop.
  void WakeLater(std::shared_ptr<Connection> connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveConnection(const std::shared_ptr<Connection>& connection);

  static constexpr size_t kScratch = 64 * 1024;

  Options options_;  // with no more seats than the limit of descriptors allows
  Service& service_;
  uint16_t port_ = 0;
  boost::asio::io_context loop_{1};
  boost::asio::local::stream_protocol::acceptor unix_acceptor_{loop_};
  boost::asio::steady_timer sweep_timer_{loop_};
  boost::asio::steady_timer unix_pause_{loop_};
  SslContextPtr context_;
  const std::unique_ptr<char[]> scratch_;  // uninitialised, so that unused pages take no memory
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::deque<std::shared_ptr<Connection>> hellos_;  // whose handshakes wait for their turn
  SeatTable seats_;
  std::unique_ptr<Gate> gate_;   // of the TCP port; null: there is none
  size_t refused_ = 0;           // connections that got no seat since the last sweep
  size_t displaced_ = 0;         // connections closed since then to give others their seats
  size_t most_connections_ = 0;  // since memory was given back
  size_t most_memory_ = 0;
  std::atomic<size_t> connection_count_{0};

  base::Mutex mutex_;
  base::CondVar emptied_;
  bool empty_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<std::shared_ptr<Connection>> awake_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace berth::http
