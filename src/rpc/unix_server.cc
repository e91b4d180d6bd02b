#include "rpc/unix_server.h"

#include <errno.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "rpc/unix_socket.h"

namespace berth::rpc {
namespace {

constexpr int kMaxRequestBytes = 16 * 1024 * 1024;
constexpr int kMaxThreads = 32;
constexpr std::chrono::seconds kGrace{2};

}  // namespace

base::StatusOr<std::unique_ptr<UnixServer>> UnixServer::Start(
    const std::string& socket, const std::vector<grpc::Service*>& services,
    grpc::CallbackGenericService* others) {
  ASSIGN_OR_RETURN(std::string path, SocketPath(socket));
  base::UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) {
    const int error = errno;
    return base::Error(base::StatusCode::kResourceExhausted, "make an eventfd: {}",
                       strerror(error));
  }
  ASSIGN_OR_RETURN(base::UniqueFd listener, ListenAt(path));

  grpc::ResourceQuota quota("unix_server");
  quota.SetMaxThreads(kMaxThreads);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 64 * 1024);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  for (grpc::Service* service : services) builder.RegisterService(service);
  if (others != nullptr) builder.RegisterCallbackGenericService(others);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    unlink(path.c_str());
    return base::Error(base::StatusCode::kInternal, "serve at {}: gRPC did not start",
                       base::Quote(path));
  }
  return std::unique_ptr<UnixServer>(
      new UnixServer(std::move(path), std::move(listener), std::move(stop), std::move(server)));
}

UnixServer::UnixServer(std::string socket, base::UniqueFd listener, base::UniqueFd stop,
                       std::unique_ptr<grpc::Server> server)
    : socket_(std::move(socket)),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      server_(std::move(server)) {
  struct stat info;
  if (lstat(socket_.c_str(), &info) == 0) {
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
  acceptor_ = std::jthread([this] { AcceptConnections(); });
}

void UnixServer::AcceptConnections() {
  while (true) {
    pollfd waits[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (poll(waits, 2, -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0) return;
    if (waits[0].revents == 0) continue;
    base::UniqueFd connection(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      grpc::AddInsecureChannelFromFd(server_.get(), connection.Release());
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue, so poll() would return at once. The loop pauses until
      // descriptors may be free again.
      LOG_WARNING("accept at {}: {}", base::Quote(socket_), strerror(errno));
      poll(&waits[1], 1, 100);
    }
  }
}

// Removes the socket's file if it still is this server's, because another server may have replaced
// it.
void UnixServer::RemoveSocket() {
  struct stat info;
  if (lstat(socket_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    unlink(socket_.c_str());
  }
}

UnixServer::~UnixServer() {
  RemoveSocket();
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0)
    LOG_ERROR("stop serving {}: {}", socket_, strerror(errno));
  acceptor_.join();
  server_->Shutdown(std::chrono::system_clock::now() + kGrace);
  server_->Wait();
}

}  // namespace berth::rpc
