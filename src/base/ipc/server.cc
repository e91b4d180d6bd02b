#include "base/ipc/server.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"

namespace berth::base::ipc {
namespace {

// How long accepting waits where there is no descriptor left.
constexpr int kPauseMs = 100;

}  // namespace

Server::Server(Options options)
    : options_(std::move(options)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      pool_({.name = options_.name,
             .max_threads = options_.max_calls,
             .max_queued = options_.max_waiting}),
      accepting_([this] { Accept(); }) {}

Server::~Server() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) != sizeof(one)) {
    LOG_ERROR("ipc: cannot stop accepting: {}", strerror(errno));
  }
  accepting_.join();
  pool_.Stop();
}

void Server::Accept() {
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
    if (auto connection = Connection::Of(std::move(*shared), options_.peer); connection.ok()) {
      // The empty buffer of a new socket takes this at once.
      connection->SendError("too many requests wait already: try again later", Deadline());
    }
  }
}

void Server::AnswerCall(UniqueFd socket) {
  Result<Connection> connection = Connection::Of(std::move(socket), options_.peer);
  if (!connection.ok()) {
    LOG_WARNING("ipc: refused a connection: {}", Quote(connection.failure().text));
    return;
  }
  Request request;
  Result<Message> message =
      connection->Receive(kLargestRequest, In(options_.io_timeout), &request.descriptors);
  if (!message.ok()) {
    LOG_WARNING("ipc: refused a request: {}", Quote(message.failure().text));
    connection->SendError(message.failure().text, In(options_.io_timeout));
    return;
  }
  request.message = *std::move(message);
  // A peer that gave up waiting counts its request as failed, so it must not be done later.
  if (connection->PeerLeft()) {
    LOG_INFO("ipc: a peer left before its request's turn came");
    return;
  }
  const StatusOr<Reply> reply = ReplyTo(request);
  if (!reply.ok()) {
    connection->SendError(std::string(base::Message(reply.status())), In(options_.io_timeout));
    return;
  }
  std::vector<int> descriptors;
  for (const UniqueFd& fd : reply->descriptors) descriptors.push_back(fd.get());
  const Failure sent =
      connection->Send(reply->message, kLargestReply, In(options_.io_timeout), descriptors);
  if (sent.ok()) return;
  LOG_WARNING("ipc: a reply did not reach its peer: {}", Quote(sent.text));
  if (sent.problem == Problem::kTooLarge) {
    connection->SendError("the reply is too large: " + sent.text, In(options_.io_timeout));
  }
}

StatusOr<Reply> Server::ReplyTo(const Request& request) {
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
