// Serves a UNIX socket in place of the process behind another one: passes every unary call on to
// it, of any service, and answers some methods itself.
//
// A call keeps its deadline, its metadata and its cancellation. The answer, with its status and
// details, comes back as the other side sent it. Streams are not relayed. Thread-safe.
//
// A call that hangs does not hold up others: calls that are passed on need no thread while they
// wait, and each method that is answered here has threads of its own.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "rpc/outcome.h"

namespace berth::rpc {

class UnaryRelay {
 public:
  // Answers one call. May block; runs on a thread of the relay.
  using Answer =
      std::function<grpc::Status(const grpc::ByteBuffer& request, grpc::ByteBuffer& response)>;

  struct Options {
    std::string socket;  // where it serves
    std::string target;  // the socket of the other process
    // By the method's full name: "/csi.v1.Node/NodePublishVolume".
    std::map<std::string, Answer> answers;
    // Of each of these methods: the calls that are answered at the same time, and those that wait.
    // More calls get UNAVAILABLE.
    size_t threads = 32;
    size_t max_queued = 256;
    // The calls of all other methods that are under way. More calls get UNAVAILABLE.
    size_t max_passed_on = 1024;
  };
  // Errors are those of UnixServer::Start. The other process need not be up: calls fail with
  // UNAVAILABLE until it is.
  static base::StatusOr<std::unique_ptr<UnaryRelay>> Start(Options options);
  // Gives running calls two seconds and then cancels them. Waits for calls that `answers` answers.
  virtual ~UnaryRelay() = default;
};

// Makes an Answer of a function of messages: StatusOr<Response>(const Request&).
template <typename Request, typename Response>
UnaryRelay::Answer AnswerWith(std::function<base::StatusOr<Response>(const Request&)> answer) {
  return [answer = std::move(answer)](const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
    grpc::ByteBuffer bytes(request);
    Request message;
    if (const grpc::Status read = grpc::SerializationTraits<Request>::Deserialize(&bytes, &message);
        !read.ok()) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the request cannot be read");
    }
    const base::StatusOr<Response> result = answer(message);
    if (!result.ok()) return ToGrpc(result.status());
    bool own_buffer = false;
    return grpc::SerializationTraits<Response>::Serialize(*result, &response, &own_buffer);
  };
}

}  // namespace berth::rpc
