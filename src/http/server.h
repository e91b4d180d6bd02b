// The HTTP/1.1 server: a UNIX socket and a TCP port, with TLS or without, all connections on one
// event-loop thread.
//
// Its Service identifies the callers and answers the requests. Limits bounds the requests, and how
// long a connection may be idle, slow or stalled. The public functions are thread-safe, except that
// only one thread may call Stop or destroy the server.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
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
#include "http/channel.h"
#include "http/exchange.h"
#include "http/service.h"
#include "http/tls.h"

namespace berth::http {

class Connection;

// Sizes are in bytes. A connection that exceeds a time is closed.
struct Limits {
  size_t max_head = 64 * 1024;
  size_t max_body = 3 * 1024 * 1024;
  size_t max_bodies = 64 * 1024 * 1024;  // of all requests that are being read or answered
  size_t max_connections = 20'000;       // fewer if the process may open fewer descriptors
  std::chrono::milliseconds handshake{10'000};
  std::chrono::milliseconds request{30'000};  // from its first byte to its last
  std::chrono::milliseconds idle{180'000};    // between requests
  std::chrono::milliseconds stall{30'000};    // while the client reads nothing of its answer
  // In place of `stall` where the answer's source waits for the client (a proxied exchange, a
  // BlockingStream), because a person may pause such a stream. The default is that of the kubelet's
  // --streaming-connection-idle-timeout.
  std::chrono::milliseconds pause = std::chrono::hours(4);
  // For the client to read a whole answer; nullopt: no bound while the client keeps reading.
  std::optional<std::chrono::milliseconds> answer = std::nullopt;
  // How long the server waits before the close for the client to read the answer and close first.
  std::chrono::milliseconds linger{2'000};
  // When the server has max_connections, it closes a connection that has been idle for this long,
  // to make room for a new one.
  std::chrono::milliseconds spare{5'000};
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
  // Accepts no more connections and reads no new requests. Returns when all answers have been sent,
  // at the latest after `grace`. It does not wait until clients that have their answers close.
  void Drain(std::chrono::milliseconds grace);
  // Closes all connections, ends the event loop and removes the UNIX socket. Further calls do
  // nothing.
  void Stop();

  size_t connections() const { return connection_count_.load(); }

 private:
  friend class Connection;
  enum class Transport { kUnix, kTcp, kTls };
  Server(Options options, Service& service);

  base::Status OpenSockets(SslContextPtr context);
  base::Status OpenUnix();
  base::Status OpenTcp();
  base::Status AdoptListener();  // uses Options::listener
  template <typename Acceptor>
  void AcceptNext(Acceptor& acceptor, Transport transport);
  void AdmitConnection(boost::asio::generic::stream_protocol::socket socket, Transport transport);
  // Runs each second: closes late connections and calls on_tick.
  void SweepConnections();
  void FindIdlest();
  // Closes the connection that has been idle for the longest. Returns false if none has been idle
  // for Limits::spare.
  bool MakeRoom();

  // Connections call these.
  boost::asio::io_context& loop() { return loop_; }
  const Limits& limits() const { return options_.limits; }
  // Changes the bytes that one connection holds of max_bodies from `before` to `now`. Returns false
  // if there are fewer left; a smaller number is always granted.
  bool ReserveBody(size_t before, size_t now);
  const std::string& name() const { return options_.name; }
  std::span<char> scratch() { return {scratch_.get(), kScratch}; }
  Service& service() { return service_; }
  // Calls the connection's SendPending on the event loop.
  void WakeLater(std::shared_ptr<Connection> connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveConnection(const std::shared_ptr<Connection>& connection);

  static constexpr size_t kScratch = 64 * 1024;

  Options options_;  // max_connections is one that the limit of descriptors allows
  Service& service_;
  uint16_t port_ = 0;
  boost::asio::io_context loop_{1};
  boost::asio::local::stream_protocol::acceptor unix_acceptor_{loop_};
  boost::asio::ip::tcp::acceptor tcp_acceptor_{loop_};
  boost::asio::steady_timer sweep_timer_{loop_};
  boost::asio::steady_timer unix_pause_{loop_};
  boost::asio::steady_timer tcp_pause_{loop_};
  SslContextPtr context_;
  const std::unique_ptr<char[]> scratch_;  // uninitialised, so that unused pages take no memory
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::vector<std::weak_ptr<Connection>> idlest_;  // the longest idle is last; from the last sweep
  size_t held_ = 0;                                // of max_bodies
  size_t refused_ = 0;                             // connections refused since the last sweep
  std::atomic<size_t> connection_count_{0};

  base::Mutex mutex_;
  base::CondVar emptied_;
  bool empty_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<std::shared_ptr<Connection>> awake_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace berth::http
