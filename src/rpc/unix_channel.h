// A gRPC channel to one UNIX socket, and a unary call on it. Every client in this room is built on
// it.
//
// It connects when it is first used, and reconnects by itself. Keepalive is off, because the socket
// of a peer that dies on the same machine closes at once. Thread-safe.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/outcome.h"

namespace berth::rpc {

class UnixChannel {
 public:
  // `endpoint` is as for SocketPath. If an answer is longer than `max_answer_bytes`, the call fails
  // with UNAVAILABLE, because the request may have been carried out.
  static base::StatusOr<std::unique_ptr<UnixChannel>> New(std::string_view endpoint,
                                                          int max_answer_bytes = 16 * 1024 * 1024);

  // Connects now, and only to a peer that runs as `uid` (SO_PEERCRED); the channel does not
  // reconnect. UNAVAILABLE: no process listens. RESOURCE_EXHAUSTED: the listener's queue is full.
  // PERMISSION_DENIED: the peer runs as another user.
  static base::StatusOr<std::unique_ptr<UnixChannel>> ConnectToPeer(
      std::string_view endpoint, uid_t uid, int max_answer_bytes = 16 * 1024 * 1024);

  const std::string& socket() const { return socket_; }
  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  // Call it before an RPC. UNAVAILABLE at once: no process listens. If gRPC is in its backoff
  // although the peer is back, waits for the connection, at most `timeout` and 2 s, because the RPC
  // would fail otherwise.
  base::Status PrepareCall(Timeout timeout);

  // Ends the unary calls that run, and every later one at once, with CANCELLED, so that a process
  // that shuts down need not wait for a peer's long call. The outcome of such a call is unknown.
  void CancelAll();

  // A unary call in flight. It registers the call for CancelAll.
  class Running {
   public:
    Running(UnixChannel& channel, grpc::ClientContext& context);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    UnixChannel& channel_;
    grpc::ClientContext& context_;
  };

 private:
  UnixChannel(std::string socket, std::shared_ptr<grpc::Channel> channel, bool connected);
  const std::string socket_;
  const std::shared_ptr<grpc::Channel> channel_;
  const bool connected_;  // made from one open connection
  base::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

// The names of a unary call in errors, logs and fault points.
struct CallName {
  std::string_view method;
  base::CallPoints points;
  bool log_bodies = false;  // at debug level, redacted
};

// Runs `call` with a deadline, between the fault points, and blocks. Errors read "METHOD: cause".
// An error that happened before the request was sent is marked (WasNotSent). `stop` ends the call
// with CANCELLED.
base::Status RunUnary(UnixChannel& channel, const CallName& name,
                      const google::protobuf::Message& request, google::protobuf::Message& response,
                      Timeout timeout, const std::stop_token& stop,
                      const std::function<grpc::Status(grpc::ClientContext*)>& call);

// Calls `method` of `stub` as RunUnary does.
template <typename Response, typename Request, typename Stub>
base::StatusOr<Response> CallUnary(UnixChannel& channel, const CallName& name, Stub& stub,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                const Request&, Response*),
                                   const Request& request, Timeout timeout,
                                   const std::stop_token& stop = {}) {
  Response response;
  RETURN_IF_ERROR(RunUnary(
      channel, name, request, response, timeout, stop,
      [&](grpc::ClientContext* context) { return (stub.*method)(context, request, &response); }));
  return response;
}

}  // namespace berth::rpc
