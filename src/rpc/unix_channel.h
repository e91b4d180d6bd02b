// A gRPC channel to one UNIX socket, and a unary call on it: what every client in this room is made
// of.
//
// Connects when first used and again by itself. Keepalive is off: a peer on the same machine that
// dies closes its socket. Thread-safe.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/outcome.h"

namespace berth::rpc {

class UnixChannel {
 public:
  // `endpoint` as for SocketPath. Answers longer than `max_answer_bytes` cannot be read:
  // UNAVAILABLE, for what was asked for may have been done.
  static base::StatusOr<std::unique_ptr<UnixChannel>> New(std::string_view endpoint,
                                                          int max_answer_bytes = 16 * 1024 * 1024);

  // Connected now, and only to a peer that runs as `uid` (SO_PEERCRED); it does not connect again.
  // UNAVAILABLE: nobody listens. PERMISSION_DENIED: the peer is somebody else.
  static base::StatusOr<std::unique_ptr<UnixChannel>> ToPeer(std::string_view endpoint, uid_t uid,
                                                             int max_answer_bytes = 16 * 1024 *
                                                                                    1024);

  const std::string& socket() const { return socket_; }
  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

  // Call before an RPC: UNAVAILABLE at once while nobody listens, and no waiting for gRPC's
  // reconnect backoff when the peer has just come back.
  base::Status Prepare(Timeout timeout);

  // Ends the unary calls that run, and every later one at once, with CANCELLED: a process that
  // stops need not wait for a peer's long call. What such a call did is unknown.
  void CancelAll();

  // A unary call in flight, for CancelAll.
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
  const bool connected_;  // made of one connection
  base::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

// What a unary call is called.
struct CallName {
  std::string_view method;
  base::CallPoints points;
  bool log_bodies = false;  // at debug level, redacted
};

// Runs `call` with a deadline, between the fault points. Errors read "METHOD: cause"; those of
// before the call are marked (WasNotSent).
base::Status RunUnary(UnixChannel& channel, const CallName& name,
                      const google::protobuf::Message& request, google::protobuf::Message& response,
                      Timeout timeout,
                      const std::function<grpc::Status(grpc::ClientContext*)>& call);

template <typename Response, typename Request, typename Stub>
base::StatusOr<Response> Unary(UnixChannel& channel, const CallName& name, Stub& stub,
                               grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                               const Request& request, Timeout timeout) {
  Response response;
  RETURN_IF_ERROR(RunUnary(
      channel, name, request, response, timeout,
      [&](grpc::ClientContext* context) { return (stub.*method)(context, request, &response); }));
  return response;
}

}  // namespace berth::rpc
