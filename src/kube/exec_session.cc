#include "kube/exec_session.h"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <csignal>
#include <deque>

#include "base/json.h"
#include "http/url.h"

namespace berth::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using boost::system::error_code;

enum Channel : char {
  kStdin = 0,
  kStdout = 1,
  kStderr = 2,
  kError = 3,
  kResize = 4,
  kClose = '\xff'
};

constexpr size_t kMaxFrame = 16 * 1024 * 1024;
constexpr auto kConnectTimeout = std::chrono::seconds(30);

std::string TargetOf(const ExecRequest& request, bool with_stdin) {
  std::string target =
      fmt::format("/api/v1/namespaces/{}/pods/{}/exec?stdout=true&stdin={}&stderr={}&tty={}",
                  http::PercentEncode(request.ns), http::PercentEncode(request.pod), with_stdin,
                  !request.tty, request.tty);
  if (!request.container.empty()) target += "&container=" + http::PercentEncode(request.container);
  for (const std::string& word : request.command) target += "&command=" + http::PercentEncode(word);
  return target;
}

// Returns the command's exit code from the Status that the error channel carries.
StatusOr<int> ParseExitCode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json status, base::json::Parse(text));
  if (base::json::String(status, {"status"}) == "Success") return 0;
  for (const Json& cause : base::json::Array(status, {"details", "causes"})) {
    if (base::json::String(cause, {"reason"}) == "ExitCode") {
      return std::atoi(base::json::String(cause, {"message"}).c_str());
    }
  }
  return Error(StatusCode::kInternal, "{}", base::json::String(status, {"message"}, "exec failed"));
}

// Makes the error of a refused upgrade. Most servers put a Status object into the body.
Status MakeRefusalStatus(const websocket::response_type& response) {
  const auto body = base::json::Parse(response.body());
  const std::string message = body.ok() ? base::json::String(*body, {"message"}) : "";
  return Error(
      response.result() == beast::http::status::not_found ? StatusCode::kNotFound
                                                          : StatusCode::kInternal,
      "{}",
      message.empty() ? fmt::format("the server answered {}", response.result_int()) : message);
}

// A connected stream, plain or with TLS. The WebSocket's code is compiled for this class alone,
// because each kind of stream that it is compiled for makes `berth` a megabyte larger.
class AnyStream {
 public:
  using executor_type = asio::any_io_executor;
  using Handler = std::function<void(error_code, size_t)>;

  template <typename Stream>
  explicit AnyStream(Stream stream) : layer_(std::make_unique<Layer<Stream>>(std::move(stream))) {}

  executor_type get_executor() { return layer_->GetExecutor(); }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    std::vector<asio::mutable_buffer> parts(asio::buffer_sequence_begin(buffers),
                                            asio::buffer_sequence_end(buffers));
    return asio::async_initiate<Token, void(error_code, size_t)>(
        [this](auto handler, std::vector<asio::mutable_buffer> into) {
          layer_->Read(std::move(into), Shared(std::move(handler)));
        },
        token, std::move(parts));
  }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    std::vector<asio::const_buffer> parts(asio::buffer_sequence_begin(buffers),
                                          asio::buffer_sequence_end(buffers));
    return asio::async_initiate<Token, void(error_code, size_t)>(
        [this](auto handler, std::vector<asio::const_buffer> from) {
          layer_->Write(std::move(from), Shared(std::move(handler)));
        },
        token, std::move(parts));
  }

  // The WebSocket calls this after its time-out.
  friend void beast_close_socket(AnyStream& stream) { stream.layer_->Close(); }
  // The WebSocket calls this to end the connection in order.
  template <typename TeardownHandler>
  friend void async_teardown(beast::role_type role, AnyStream& stream, TeardownHandler&& handler) {
    auto shared =
        std::make_shared<std::decay_t<TeardownHandler>>(std::forward<TeardownHandler>(handler));
    stream.layer_->Teardown(role, [shared](error_code error) { (*shared)(error); });
  }

 private:
  class LayerBase {
   public:
    virtual ~LayerBase() = default;
    virtual executor_type GetExecutor() = 0;
    virtual void Read(std::vector<asio::mutable_buffer> into, Handler handler) = 0;
    virtual void Write(std::vector<asio::const_buffer> from, Handler handler) = 0;
    virtual void Teardown(beast::role_type role, std::function<void(error_code)> handler) = 0;
    virtual void Close() = 0;
  };

  template <typename Stream>
  class Layer final : public LayerBase {
   public:
    explicit Layer(Stream stream) : stream_(std::move(stream)) {}
    executor_type GetExecutor() override { return stream_.get_executor(); }
    void Read(std::vector<asio::mutable_buffer> into, Handler handler) override {
      stream_.async_read_some(into, std::move(handler));
    }
    void Write(std::vector<asio::const_buffer> from, Handler handler) override {
      stream_.async_write_some(from, std::move(handler));
    }
    void Teardown(beast::role_type role, std::function<void(error_code)> handler) override {
      using websocket::async_teardown;
      async_teardown(role, stream_, std::move(handler));
    }
    void Close() override { beast::close_socket(beast::get_lowest_layer(stream_)); }

   private:
    Stream stream_;
  };

  // Makes a handler that can be copied, because std::function requires that and handlers cannot be
  // copied.
  template <typename Moved>
  static Handler Shared(Moved handler) {
    auto shared = std::make_shared<Moved>(std::move(handler));
    return [shared](error_code error, size_t bytes) { (*shared)(error, bytes); };
  }

  std::unique_ptr<LayerBase> layer_;
};

using WebSocket = websocket::stream<AnyStream, /*deflateSupported=*/false>;

// One exec over a connected stream. All members are used on the thread that runs the io_context.
// The reader of standard input has its own thread and posts to the io_context.
class Session {
 public:
  Session(asio::io_context& io, WebSocket& ws, const ExecStreams& streams, bool tty)
      : io_(io), ws_(ws), streams_(streams), tty_(tty), window_changes_(io) {}

  StatusOr<int> RunCommand(std::stop_token stop) {
    ws_.binary(true);
    ws_.read_message_max(kMaxFrame);
    const std::stop_callback cancel(
        stop, [this] { asio::post(io_, [this] { FinishSession(Cancelled()); }); });
    if (tty_) WatchTerminal();
    ReadFrame();
    std::jthread input;
    if (streams_.stdin_fd >= 0) {
      input = std::jthread([this](const std::stop_token& done) { ReadInput(done); });
    }
    io_.run();
    return result_.value_or(Error(StatusCode::kUnavailable, "the connection broke"));
  }

  void set_closes_stdin(bool closes) { closes_stdin_ = closes; }

 private:
  static Status Cancelled() { return Error(StatusCode::kCancelled, "interrupted"); }

  void FinishSession(StatusOr<int> result) {
    if (!result_.has_value()) result_ = std::move(result);
    io_.stop();
  }

  void ReadFrame() {
    ws_.async_read(buffer_, [this](error_code error, size_t) {
      if (error) {
        FinishSession(Error(StatusCode::kUnavailable, "exec: {}", error.message()));
        return;
      }
      const auto data = buffer_.cdata();
      const std::string_view frame(static_cast<const char*>(data.data()), data.size());
      if (!frame.empty()) HandleFrame(frame[0], frame.substr(1));
      buffer_.consume(buffer_.size());
      if (!io_.stopped()) ReadFrame();
    });
  }

  void HandleFrame(char channel, std::string_view data) {
    if (channel == kStdout && streams_.on_stdout) streams_.on_stdout(data);
    if (channel == kStderr && streams_.on_stderr) streams_.on_stderr(data);
    if (channel == kError && !data.empty()) FinishSession(ParseExitCode(data));
  }

  // Runs on a thread of its own, because standard input may be a file, which cannot be polled.
  void ReadInput(const std::stop_token& done) {
    std::string chunk(16 * 1024, '\0');
    while (!done.stop_requested()) {
      pollfd ready = {streams_.stdin_fd, POLLIN, 0};
      if (poll(&ready, 1, 50) == 0) continue;
      const ssize_t size = read(streams_.stdin_fd, chunk.data(), chunk.size());
      if (size <= 0) break;
      std::string frame(1, kStdin);
      frame.append(chunk, 0, static_cast<size_t>(size));
      asio::post(io_, [this, frame = std::move(frame)]() mutable { SendFrame(std::move(frame)); });
    }
    asio::post(io_, [this] {
      if (closes_stdin_) {
        SendFrame(std::string{kClose, kStdin});
      } else if (streams_.on_stdin_end_lost) {
        streams_.on_stdin_end_lost();
      }
    });
  }

  void SendFrame(std::string frame) {
    outgoing_.push_back(std::move(frame));
    if (outgoing_.size() == 1) WriteNextFrame();
  }

  void WriteNextFrame() {
    ws_.async_write(asio::buffer(outgoing_.front()), [this](error_code error, size_t) {
      if (error) {
        FinishSession(Error(StatusCode::kUnavailable, "exec: {}", error.message()));
        return;
      }
      outgoing_.pop_front();
      if (!outgoing_.empty()) WriteNextFrame();
    });
  }

  void WatchTerminal() {
    SendTerminalSize();
    window_changes_.add(SIGWINCH);
    AwaitWindowChange();
  }

  void AwaitWindowChange() {
    window_changes_.async_wait([this](error_code error, int) {
      if (error) return;
      SendTerminalSize();
      AwaitWindowChange();
    });
  }

  void SendTerminalSize() {
    if (!streams_.terminal_size) return;
    const auto [columns, rows] = streams_.terminal_size();
    SendFrame(std::string(1, kResize) + base::json::Dump({{"Width", columns}, {"Height", rows}}));
  }

  asio::io_context& io_;
  WebSocket& ws_;
  const ExecStreams& streams_;
  const bool tty_;
  bool closes_stdin_ = false;
  asio::signal_set window_changes_;
  beast::flat_buffer buffer_;
  std::deque<std::string> outgoing_;
  std::optional<StatusOr<int>> result_;
};

// Upgrades a connected stream and runs the session on it.
StatusOr<int> RunSession(asio::io_context& io, AnyStream stream, const std::string& host,
                         const std::string& token, const ExecRequest& request,
                         const ExecStreams& streams, std::stop_token stop) {
  WebSocket ws(std::move(stream));
  websocket::stream_base::timeout timeouts{kConnectTimeout, websocket::stream_base::none(), false};
  ws.set_option(timeouts);
  ws.set_option(websocket::stream_base::decorator([&](websocket::request_type& head) {
    head.set(beast::http::field::sec_websocket_protocol, "v5.channel.k8s.io, v4.channel.k8s.io");
    head.set(beast::http::field::user_agent, "berth");
    if (!token.empty()) head.set(beast::http::field::authorization, "Bearer " + token);
  }));
  websocket::response_type response;
  error_code error = asio::error::timed_out;
  ws.async_handshake(response, host, TargetOf(request, streams.stdin_fd >= 0),
                     [&](error_code result) { error = result; });
  io.run();
  io.restart();
  if (error == websocket::error::upgrade_declined) return MakeRefusalStatus(response);
  if (error) return Error(StatusCode::kUnavailable, "exec: {}", error.message());
  Session session(io, ws, streams, request.tty);
  session.set_closes_stdin(response[beast::http::field::sec_websocket_protocol] ==
                           "v5.channel.k8s.io");
  return session.RunCommand(stop);
}

StatusOr<int> ExecOverUnixSocket(const Config& config, const ExecRequest& request,
                                 const ExecStreams& streams, std::stop_token stop) {
  asio::io_context io(1);
  using Protocol = asio::local::stream_protocol;
  beast::basic_stream<Protocol> stream(io);
  error_code error;
  stream.socket().connect(Protocol::endpoint(config.socket), error);
  if (error) {
    return Error(StatusCode::kUnavailable, "connect to '{}': {}", config.socket, error.message());
  }
  return RunSession(io, AnyStream(std::move(stream)), "localhost", "", request, streams, stop);
}

// The host and port of "https://host:port".
struct Address {
  std::string host;
  std::string port = "443";
};

StatusOr<Address> ParseServer(std::string_view server) {
  constexpr std::string_view kScheme = "https://";
  if (!server.starts_with(kScheme)) {
    return Error(StatusCode::kInvalidArgument, "exec needs an https:// server, not '{}'", server);
  }
  server.remove_prefix(kScheme.size());
  server = server.substr(0, server.find('/'));
  Address address;
  const size_t colon = server.rfind(':');
  if (colon != std::string_view::npos && server.find(']', colon) == std::string_view::npos) {
    address.port = server.substr(colon + 1);
    server = server.substr(0, colon);
  }
  if (server.starts_with('[') && server.ends_with(']'))
    server = server.substr(1, server.size() - 2);
  address.host = server;
  return address;
}

Status LoadCredentials(asio::ssl::context& tls, const Config& config, const std::string& host) {
  try {
    if (config.certificate_authority.empty()) {
      tls.set_default_verify_paths();
    } else {
      tls.add_certificate_authority(asio::buffer(config.certificate_authority));
    }
    if (config.insecure_skip_tls_verify) {
      tls.set_verify_mode(asio::ssl::verify_none);
    } else {
      tls.set_verify_mode(asio::ssl::verify_peer);
      tls.set_verify_callback(asio::ssl::host_name_verification(host));
    }
    if (!config.client_certificate.empty()) {
      tls.use_certificate_chain(asio::buffer(config.client_certificate));
      tls.use_private_key(asio::buffer(config.client_key), asio::ssl::context::pem);
    }
  } catch (const boost::system::system_error& error) {
    return Error(StatusCode::kInvalidArgument, "TLS credentials: {}", error.what());
  }
  return base::OkStatus();
}

std::string ReadToken(const Config& config) {
  if (config.token_file.empty()) return config.token;
  return ReadTokenFile(config.token_file);
}

StatusOr<int> ExecOverTls(const Config& config, const ExecRequest& request,
                          const ExecStreams& streams, std::stop_token stop) {
  ASSIGN_OR_RETURN(const Address address, ParseServer(config.server));
  asio::io_context io(1);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  RETURN_IF_ERROR(LoadCredentials(tls, config, address.host));
  beast::ssl_stream<beast::tcp_stream> stream(io, tls);
  SSL_set_tlsext_host_name(stream.native_handle(), address.host.c_str());
  error_code error;
  const auto endpoints = asio::ip::tcp::resolver(io).resolve(address.host, address.port, error);
  if (!error) {
    auto& lowest = beast::get_lowest_layer(stream);
    lowest.expires_after(kConnectTimeout);
    lowest.async_connect(endpoints, [&](error_code connected, const auto&) {
      error = connected;
      if (error) return;
      stream.async_handshake(asio::ssl::stream_base::client,
                             [&](error_code handshake) { error = handshake; });
    });
    io.run();
    io.restart();
    lowest.expires_never();
  }
  if (error) {
    return Error(StatusCode::kUnavailable, "connect to '{}': {}", config.server, error.message());
  }
  return RunSession(io, AnyStream(std::move(stream)), address.host, ReadToken(config), request,
                    streams, stop);
}

}  // namespace

StatusOr<int> ExecInPod(const Config& config, const ExecRequest& request,
                        const ExecStreams& streams, std::stop_token stop) {
  return config.socket.empty() ? ExecOverTls(config, request, streams, stop)
                               : ExecOverUnixSocket(config, request, streams, stop);
}

}  // namespace berth::kube
