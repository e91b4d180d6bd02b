// Serves gRPC services on a UNIX socket.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::rpc {

class UnixServer {
 public:
  // Binds `socket` (at most 107 bytes) with mode 0600, and replaces a socket on which no process
  // listens. FAILED_PRECONDITION: another process listens there, or the file is not a socket. The
  // services are borrowed and must outlive the server. `others` answers the calls of all other
  // services; null: they are unimplemented.
  static base::StatusOr<std::unique_ptr<UnixServer>> Start(
      const std::string& socket, const std::vector<grpc::Service*>& services,
      grpc::CallbackGenericService* others = nullptr);
  // Gives running calls two seconds and then ends them, and removes the socket.
  ~UnixServer();

  const std::string& socket() const { return socket_; }

 private:
  UnixServer(std::string socket, base::UniqueFd listener, base::UniqueFd stop,
             std::unique_ptr<grpc::Server> server);
  // Accepts connections and gives them to gRPC, because gRPC would bind the socket with the mode
  // that the umask gives.
  void AcceptConnections();
  void RemoveSocket();

  const std::string socket_;
  const base::UniqueFd listener_;
  const base::UniqueFd stop_;  // an eventfd
  dev_t device_ = 0;           // device of the socket's file, to recognise it
  ino_t inode_ = 0;
  const std::unique_ptr<grpc::Server> server_;
  std::jthread acceptor_;
};

// The driver's side of plugin registration: serves Registration on a socket in the kubelet's
// plugins_registry folder and announces a CSI driver (supported_versions ["1.0.0"]).
class RegistrationServer {
 public:
  // Called when the kubelet reports whether it registered the driver; `error` is set if it did not.
  using OnStatus = std::function<void(bool registered, const std::string& error)>;
  // `on_status` runs on a thread of gRPC and must not block. The errors are those of
  // UnixServer::Start.
  static base::StatusOr<std::unique_ptr<RegistrationServer>> Start(const std::string& socket,
                                                                   const std::string& driver,
                                                                   const std::string& endpoint,
                                                                   OnStatus on_status = nullptr);
  virtual ~RegistrationServer() = default;
  // False until the kubelet has reported that it registered the driver. Sets `error`, unless it is
  // null, to the kubelet's error; "": none.
  virtual bool registered(std::string* error) const = 0;
};

}  // namespace berth::rpc
