// The HTTP/1.1 transport: a UNIX socket and a TLS port, all connections on one event-loop thread.
//
// Who gets in: on the UNIX socket processes of root and of the server's own user; on TLS holders of
// a certificate that the context verifies, and requests that bring a token or need none. Requests
// are bounded (head 64 KiB, body 3 MiB), and so are idle, slow and stalled connections.
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
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "apiserver/channel.h"
#include "apiserver/exchange.h"
#include "base/mutex.h"
#include "base/status.h"

namespace berth::apiserver {

class Connection;

struct SslContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, SslContextDeleter>;

struct HttpLimits {
  size_t max_head = 64 * 1024;
  size_t max_body = 3 * 1024 * 1024;
  size_t max_bodies = 64 * 1024 * 1024;  // of all requests that are being read or answered
  size_t max_connections = 20'000;       // but never more than descriptors allow
  std::chrono::milliseconds handshake{10'000};
  std::chrono::milliseconds request{30'000};  // from its first byte to its last
  std::chrono::milliseconds idle{180'000};    // between requests
  std::chrono::milliseconds stall{30'000};    // a client that reads nothing of its answer
  std::chrono::milliseconds linger{2'000};    // for a refused client to read why
  // When all connections are taken, one that has idled for that long makes room for a new one.
  std::chrono::milliseconds spare{5'000};
};

class HttpServer {
 public:
  struct Options {
    std::string unix_socket;
    std::string listen_address;
    uint16_t port = 0;
    HttpLimits limits;
    std::function<void()> on_tick;  // each second, on the event loop; must not block
  };
  // Called on the event loop with each request; must not block.
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;

  static base::StatusOr<std::unique_ptr<HttpServer>> Listen(const Options& options,
                                                            SslContextPtr context, Handler handler);
  ~HttpServer();  // as Stop

  uint16_t port() const { return port_; }
  // Replaces certificates for new connections.
  void UseContext(SslContextPtr context);
  // Accepts no more and reads no new request; returns when all answers are out, at most after
  // `grace`.
  void Drain(std::chrono::milliseconds grace);
  // Closes everything and joins the loop. Idempotent.
  void Stop();

  size_t connections() const { return connection_count_.load(); }

 private:
  friend class Connection;
  explicit HttpServer(const Options& options, Handler handler);

  base::Status Open(SslContextPtr context);
  base::Status OpenUnix();
  base::Status OpenTcp();
  template <typename Acceptor>
  void Accept(Acceptor& acceptor, bool secure);
  void Admit(boost::asio::generic::stream_protocol::socket socket, bool secure);
  void Sweep();
  void FindIdlest();
  // Closes the connection that has idled for the longest; false if none has for long enough.
  bool MakeRoom();

  // For connections.
  boost::asio::io_context& loop() { return loop_; }
  const HttpLimits& limits() const { return options_.limits; }
  // Changes what one connection takes of max_bodies; false if that is not there. Less always is.
  bool Hold(size_t before, size_t now);
  std::string& scratch() { return scratch_; }
  void Handle(std::shared_ptr<Exchange> exchange) { handler_(std::move(exchange)); }
  void WakeLater(std::shared_ptr<Connection> connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const std::shared_ptr<Connection>& connection);

  const Options options_;  // with limits that the machine can keep
  const Handler handler_;
  uint16_t port_ = 0;
  boost::asio::io_context loop_{1};
  boost::asio::local::stream_protocol::acceptor unix_acceptor_{loop_};
  boost::asio::ip::tcp::acceptor tcp_acceptor_{loop_};
  boost::asio::steady_timer sweep_timer_{loop_};
  boost::asio::steady_timer unix_pause_{loop_};
  boost::asio::steady_timer tcp_pause_{loop_};
  SslContextPtr context_;
  std::string scratch_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::vector<std::weak_ptr<Connection>> idlest_;  // the longest idle last; as of the last sweep
  size_t held_ = 0;                                // of max_bodies
  size_t refused_ = 0;                             // connections since the last sweep
  std::atomic<size_t> connection_count_{0};
  bool draining_ = false;

  base::Mutex mutex_;
  base::CondVar emptied_;
  bool empty_ ABSL_GUARDED_BY(mutex_) = true;
  std::vector<std::shared_ptr<Connection>> awake_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace berth::apiserver
