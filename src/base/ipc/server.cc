#include "base/ipc/server.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"

namespace berth::base::ipc {
namespace {

// How long the server waits until it accepts again, if it has no descriptor or memory left.
constexpr int kPauseMs = 100;

}  // namespace

Server::Server(Options options)
    : options_(std::move(options)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      pool_({.name = options_.name,
             .max_threads = options_.max_calls,
             .max_queued = options_.max_waiting}),
      accepting_([this] { AcceptConnections(); }) {}

Server::~Server() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) != sizeof(one)) {
    LOG_ERROR("ipc: cannot stop accepting: {}", strerror(errno));
  }
  accepting_.join();
  pool_.Stop();
}

void Server::AcceptConnections() {
  while (true) {
    pollfd entries[] = {{.fd = stop_.get(), .events = POLLIN},
                        {.fd = options_.listener.get(), .events = POLLIN}};
    if (poll(entries, 2, -1) < 0) continue;
    if (entries[0].revents != 0) return;
    UniqueFd socket(accept4(options_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        LOG_WARNING("ipc: cannot accept a connection: {}", strerror(errno));
        poll(entries, 1, kPauseMs);
      }
      continue;
    }
    // The task must be copyable and a descriptor is not, so the task shares it.
    const auto shared = std::make_shared<UniqueFd>(std::move(socket));
    if (pool_.Post([this, shared] { AnswerCall(std::move(*shared)); })) continue;
    if (auto connection = Connection::Wrap(std::move(*shared), options_.peer); connection.ok()) {
      // This does not block, because the socket is new and its buffer empty.
      connection->SendError("too many requests wait already: try again later",
                            CodeName(StatusCode::kResourceExhausted), Deadline());
    }
  }
}

void Server::AnswerCall(UniqueFd socket) {
  Result<Connection> connection = Connection::Wrap(std::move(socket), options_.peer);
  if (!connection.ok()) {
    LOG_WARNING("ipc: refused a connection: {}", Quote(connection.failure().text));
    return;
  }
  Request request;
  Result<Message> message =
      connection->Receive(kLargestRequest, DeadlineIn(options_.io_timeout), &request.descriptors);
  if (!message.ok()) {
    LOG_WARNING("ipc: refused a request: {}", Quote(message.failure().text));
    connection->SendError(message.failure().text, CodeName(StatusCode::kInvalidArgument),
                          DeadlineIn(options_.io_timeout));
    return;
  }
  request.message = *std::move(message);
  // A peer that has left takes its request for failed, so the request must not be done now.
  if (connection->HasPeerLeft()) {
    LOG_INFO("ipc: dropped a request, because its peer has left");
    return;
  }
  const StatusOr<Reply> reply = RunMethod(request);
  if (!reply.ok()) {
    connection->SendError(std::string(base::Message(reply.status())),
                          CodeName(reply.status().code()), DeadlineIn(options_.io_timeout));
    return;
  }
  std::vector<int> descriptors;
  for (const UniqueFd& fd : reply->descriptors) descriptors.push_back(fd.get());
  const Failure sent =
      connection->Send(reply->message, kLargestReply, DeadlineIn(options_.io_timeout), descriptors);
  if (sent.ok()) return;
  LOG_WARNING("ipc: cannot send a reply: {}", Quote(sent.text));
  if (sent.problem == Problem::kTooLarge) {
    connection->SendError("the reply is too large: " + sent.text, CodeName(StatusCode::kInternal),
                          DeadlineIn(options_.io_timeout));
  }
}

StatusOr<Reply> Server::RunMethod(const Request& request) {
  const std::string* method = request.message.FindText(kMethod);
  if (method == nullptr) {
    return Error(StatusCode::kInvalidArgument, "the request names no method");
  }
  const auto found = options_.methods.find(*method);
  if (found == options_.methods.end()) {
    return Error(StatusCode::kUnimplemented, "there is no method {} here", Quote(*method));
  }
  return found->second(request);
}

}  // namespace berth::base::ipc
