#include "http/server.h"

#include <malloc.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "http/connection.h"

namespace berth::http {
namespace asio = boost::asio;
using base::Error;
using base::Status;
using base::StatusCode;

namespace {

// How long to wait after accept failed, mostly because no descriptor was free.
constexpr std::chrono::milliseconds kAcceptPause{100};
// A client that answers no probe for two minutes is gone.
constexpr int kKeepaliveSeconds = 30;
constexpr int kKeepaliveProbes = 3;
// Memory is given back to the kernel when this many connections, or this many bytes of requests,
// are gone since the last time.
constexpr size_t kTrimConnections = 500;
constexpr size_t kTrimBytes = 16 * 1024 * 1024;

Status MakeNetError(const boost::system::error_code& error, std::string_view context) {
  return Error(StatusCode::kUnavailable, "{}: {}", context, error.message());
}

void SetTcpOptions(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // The kernel finds a client that vanished: by keepalive while no bytes wait for the client, and
  // otherwise by its bound on retries (tcp_retries2), which counts probes without an answer.
  // TCP_USER_TIMEOUT is not set, because it would also close the connection of a client that
  // answers probes but reads nothing for a time.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

int FindFamily(int fd) {
  int family = AF_INET;
  socklen_t size = sizeof(family);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

// Lowers the number of seats so that a quarter of the descriptors is left for files, the database
// and the node agent.
Server::Options LimitToDescriptors(Server::Options options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const size_t most = std::max<size_t>(limit.rlim_cur / 4 * 3, 16);
    options.limits.seats = options.limits.seats.FitTo(most);
  }
  return options;
}

}  // namespace

Server::Server(Options options, Service& service)
    : options_(LimitToDescriptors(std::move(options))),
      service_(service),
      scratch_(std::make_unique_for_overwrite<char[]>(kScratch)),
      seats_(options_.limits.seats) {}

Server::~Server() { Stop(); }

base::StatusOr<std::unique_ptr<Server>> Server::Listen(Options options, SslContextPtr context,
                                                       Service& service) {
  auto server = std::unique_ptr<Server>(new Server(std::move(options), service));
  RETURN_IF_ERROR(server->OpenSockets(std::move(context)));
  return server;
}

Status Server::OpenSockets(SslContextPtr context) {
  context_ = std::move(context);
  const bool tcp = context_ || options_.listener.valid() || !options_.listen_address.empty();
  if (tcp) RETURN_IF_ERROR(OpenTcp());
  if (!options_.unix_socket.empty()) RETURN_IF_ERROR(OpenUnix());
  if (options_.before_serving) RETURN_IF_ERROR(options_.before_serving(port()));
  if (unix_acceptor_.is_open()) AcceptUnix();
  SweepConnections();
  thread_ = std::jthread([this] {
    // The kernel accepts thread names of at most 15 bytes.
    pthread_setname_np(pthread_self(), (options_.name.substr(0, 10) + "-loop").c_str());
    // SIGPIPE is blocked because OpenSSL writes without MSG_NOSIGNAL, and a client that went away
    // must not end the process.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    loop_.run();
  });
  return base::OkStatus();
}

Status Server::OpenUnix() {
  const std::string& path = options_.unix_socket;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error(StatusCode::kInvalidArgument,
                 "the socket path '{}' is longer than the kernel's {} bytes", path,
                 sizeof(sockaddr_un::sun_path) - 1);
  }
  // A socket at this path is left over from a server that ended, because the caller's lock admits
  // only one server at a time.
  struct stat present{};
  if (lstat(path.c_str(), &present) == 0) {
    if (!S_ISSOCK(present.st_mode)) {
      return Error(StatusCode::kFailedPrecondition, "'{}' exists and is not a socket", path);
    }
    unlink(path.c_str());
  }
  boost::system::error_code error;
  unix_acceptor_.open(asio::local::stream_protocol(), error);
  // The mode is set before bind, because the socket file gets it at its creation; otherwise others
  // could connect between bind and chmod.
  if (!error) fchmod(unix_acceptor_.native_handle(), 0600);
  if (!error) unix_acceptor_.bind(asio::local::stream_protocol::endpoint(path), error);
  if (!error && chmod(path.c_str(), 0600) != 0)
    error.assign(errno, boost::system::system_category());
  if (!error) unix_acceptor_.listen(SOMAXCONN, error);
  return error ? MakeNetError(error, fmt::format("listen on '{}'", path)) : base::OkStatus();
}

Status Server::OpenTcp() {
  if (options_.listener.valid()) return AdoptListener();
  const std::string where = fmt::format("{}:{}", options_.listen_address, options_.port);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(options_.listen_address, error);
  if (error) {
    return Error(StatusCode::kInvalidArgument, "listen on '{}': not an IP address", where);
  }
  const asio::ip::tcp::endpoint endpoint(address, options_.port);
  asio::ip::tcp::acceptor acceptor(loop_);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(SOMAXCONN, error);
  if (error) return MakeNetError(error, fmt::format("listen on '{}'", where));
  port_ = acceptor.local_endpoint().port();
  OpenGate(base::UniqueFd(acceptor.release()));
  return base::OkStatus();
}

Status Server::AdoptListener() {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  int listens = 0;
  socklen_t listens_size = sizeof(listens);
  if (getsockname(options_.listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getsockopt(options_.listener.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) !=
          0) {
    return Error(StatusCode::kInvalidArgument, "the listener is not a socket");
  }
  const bool inet = address.ss_family == AF_INET || address.ss_family == AF_INET6;
  if (!inet || listens == 0) {
    return Error(StatusCode::kInvalidArgument, "the listener is not a TCP socket that listens");
  }
  // The port has the same place in both kinds of address.
  port_ = ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  OpenGate(std::move(options_.listener));
  return base::OkStatus();
}

void Server::OpenGate(base::UniqueFd listener) {
  gate_ = std::make_unique<Gate>(
      std::move(listener),
      Gate::Options{.name = options_.name,
                    .limits = options_.limits.arrivals,
                    .local_clients_by_user = options_.local_clients_by_user},
      [this](base::UniqueFd socket, std::string key) {
        asio::post(loop_, [this, socket = std::move(socket), key = std::move(key)]() mutable {
          AdmitTcp(std::move(socket), key);
          gate_->AdmitNext();
        });
      });
}

void Server::AcceptUnix() {
  unix_acceptor_.async_accept(
      [this](const boost::system::error_code& error, asio::local::stream_protocol::socket socket) {
        if (!unix_acceptor_.is_open()) return;
        if (!error) {
          AdmitUnix(std::move(socket));
          return AcceptUnix();
        }
        LOG_WARNING("{}: accept failed: {}", options_.name, error.message());
        unix_pause_.expires_after(kAcceptPause);
        unix_pause_.async_wait([this](const boost::system::error_code& stopped) {
          if (!stopped && unix_acceptor_.is_open()) AcceptUnix();
        });
      });
}

void Server::AdmitUnix(asio::generic::stream_protocol::socket socket) {
  boost::system::error_code error;
  socket.native_non_blocking(true, error);
  if (error) return;
  const auto uid = ReadPeerUid(socket.native_handle());
  std::shared_ptr<const User> user;
  if (uid) user = service_.FindProcessUser(*uid);
  if (!user) {
    LOG_WARNING("{}: refused a connection of another user on the UNIX socket", options_.name);
    return;
  }
  SeatConnection(
      std::make_shared<Connection>(*this, std::move(socket), /*tls=*/false, std::move(user)),
      ClientClass::kOwner, std::to_string(*uid));
}

void Server::AdmitTcp(base::UniqueFd socket, const std::string& key) {
  SetTcpOptions(socket.get());
  const int family = FindFamily(socket.get());
  asio::generic::stream_protocol::socket stream(loop_);
  boost::system::error_code error;
  stream.assign(asio::generic::stream_protocol(family, IPPROTO_TCP), socket.get(), error);
  if (error) return;
  socket.Release();
  stream.native_non_blocking(true, error);
  if (error) return;
  SeatConnection(std::make_shared<Connection>(*this, std::move(stream), context_ != nullptr,
                                              /*user=*/nullptr),
                 ClientClass::kStranger, key);
}

void Server::SeatConnection(std::shared_ptr<Connection> connection, ClientClass client,
                            const std::string& key) {
  const auto now = std::chrono::steady_clock::now();
  if (!AcceptOffer(seats_.OfferSeat(client, key, now))) return;  // the socket closes
  connections_.insert(connection);
  connection_count_ = connections_.size();
  most_connections_ = std::max(most_connections_, connections_.size());
  seats_.AddSeat(*connection, client, key, Seat::Stage::kWaiting, now);
  {
    base::MutexLock lock(mutex_);
    empty_ = false;
  }
  connection->Start();
}

bool Server::AcceptOffer(const SeatTable::Offer& offer) {
  if (!offer.granted) {
    ++refused_;
  } else if (offer.displaced != nullptr) {
    ++displaced_;
    static_cast<Connection*>(offer.displaced)->Close();
  }
  return offer.granted;
}

bool Server::PromoteConnection(Connection& connection, const User& user) {
  const auto now = std::chrono::steady_clock::now();
  if (!AcceptOffer(seats_.OfferPromotion(user.name, now))) return false;
  if (gate_ != nullptr) gate_->ChargeUser(user.name, connection.key());
  seats_.Promote(connection, user.name, now);
  return true;
}

void Server::SetStage(Connection& connection, Seat::Stage stage) {
  seats_.SetStage(connection, stage, std::chrono::steady_clock::now());
}

void Server::BeginHandshakeLater(std::shared_ptr<Connection> connection) {
  hellos_.push_back(std::move(connection));
  if (hellos_.size() == 1) asio::post(loop_, [this] { BeginNextHandshake(); });
}

void Server::BeginNextHandshake() {
  std::shared_ptr<Connection> next;
  while (!hellos_.empty() && (next == nullptr || next->closed())) {
    next = std::move(hellos_.front());
    hellos_.pop_front();
  }
  if (!hellos_.empty()) asio::post(loop_, [this] { BeginNextHandshake(); });
  if (next != nullptr && !next->closed()) next->BeginHandshake();
}

SslPtr Server::MakeSsl(int fd) {
  SslPtr ssl(SSL_new(context_.get()));
  if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return ssl;
}

void Server::RemoveConnection(const std::shared_ptr<Connection>& connection) {
  seats_.RemoveSeat(*connection);
  connections_.erase(connection);
  connection_count_ = connections_.size();
  if (connections_.empty()) {
    base::MutexLock lock(mutex_);
    empty_ = true;
    emptied_.NotifyAll();
  }
}

bool Server::ReserveMemory(Connection& connection, size_t bytes) {
  while (!seats_.SetMemory(connection, bytes)) {
    Seat* const holder = seats_.FindMemoryHolder(connection, bytes);
    if (holder == nullptr) return false;
    ++displaced_;
    static_cast<Connection*>(holder)->Close();
  }
  most_memory_ = std::max(most_memory_, seats_.memory());
  return true;
}

void Server::ReleaseFreeMemory() {
  const size_t memory = seats_.memory();
  if (connections_.size() + kTrimConnections > most_connections_ &&
      memory + kTrimBytes > most_memory_) {
    return;
  }
  malloc_trim(0);
  most_connections_ = connections_.size();
  most_memory_ = memory;
}

void Server::SweepConnections() {
  sweep_timer_.expires_after(std::chrono::seconds(1));
  sweep_timer_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    const auto now = std::chrono::steady_clock::now();
    // The loop uses a copy, because closing a connection removes it from the set.
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->CloseIfLate(now);
    if (gate_ != nullptr) refused_ += gate_->TakeRefused();
    if (refused_ > 0 || displaced_ > 0) {
      LOG_WARNING("{}: refused {} connections, and closed {} silent ones for others: {} are open",
                  options_.name, std::exchange(refused_, 0), std::exchange(displaced_, 0),
                  connections_.size());
    }
    ReleaseFreeMemory();
    if (options_.on_tick) options_.on_tick();
    SweepConnections();
  });
}

void Server::WakeLater(std::shared_ptr<Connection> connection) {
  {
    base::MutexLock lock(mutex_);
    awake_.push_back(std::move(connection));
    if (awake_.size() > 1) return;  // the loop has been woken already
  }
  asio::post(loop_, [this] {
    std::vector<std::shared_ptr<Connection>> awake;
    {
      base::MutexLock lock(mutex_);
      awake.swap(awake_);
    }
    for (const auto& one : awake) one->SendPending();
  });
}

void Server::UseContext(SslContextPtr context) {
  // Existing connections keep the old context, because each SSL object holds a reference to it.
  asio::post(loop_, [this, shared = std::shared_ptr<SSL_CTX>(std::move(context))] {
    SSL_CTX_up_ref(shared.get());
    context_.reset(shared.get());
  });
}

void Server::JudgeStreams() {
  asio::post(loop_, [this] {
    // The loop uses a copy, because the service may answer at once.
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->JudgeStream();
  });
}

void Server::Drain(std::chrono::milliseconds grace) {
  if (gate_ != nullptr) gate_->Stop();
  asio::post(loop_, [this] {
    boost::system::error_code ignored;
    unix_acceptor_.close(ignored);
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->RetireConnection();
  });
  const auto deadline = std::chrono::steady_clock::now() + grace;
  base::MutexLock lock(mutex_);
  while (!empty_ && emptied_.WaitUntil(mutex_, deadline)) {
  }
}

void Server::Stop() {
  if (gate_ != nullptr) gate_->Stop();
  if (!thread_.joinable()) return;
  asio::post(loop_, [this] {
    boost::system::error_code ignored;
    unix_acceptor_.close(ignored);
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->Close();
    sweep_timer_.cancel();
    loop_.stop();
  });
  thread_.join();
  if (!options_.unix_socket.empty()) unlink(options_.unix_socket.c_str());
  base::MutexLock lock(mutex_);
  awake_.clear();
}

}  // namespace berth::http
