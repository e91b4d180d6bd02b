// One framed-JSON protocol on UNIX sockets, for programs that are to stay small: a connection
// carries a request and its reply, each a frame:
//
//   0       4        6              8       12          16
//   "BIPC"  version  descriptors    length  zero        JSON (base/ipc/message.h), `length` bytes
//
// in the machine's own byte order. Descriptors travel with the first byte of their frame
// (SCM_RIGHTS). The version stands before every part that a later version may change, so that each
// side recognises the version of the other.
//
// A peer that is not the expected one (by SO_PEERCRED) is refused before a byte is read. Each call
// has one deadline for all of it, so that a peer cannot prolong the call by sending a byte a
// second. No call waits past its deadline, and none raises SIGPIPE. Not thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ipc/message.h"
#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::base::ipc {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kMostDescriptors = 16;
inline constexpr size_t kLargestRequest = 1024 * 1024;
inline constexpr size_t kLargestReply = 8 * 1024 * 1024;

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

class Connection {
 public:
  Connection() = default;  // connected to nobody
  // Connects to the socket at `path`, whose listener must run as `uid`. kNobody, kNotAllowed,
  // kTimeout.
  static Result<Connection> To(const std::string& path, Deadline deadline, uid_t uid = 0);
  // Wraps a socket that was accepted, whose peer must run as `uid`. kNotAllowed.
  static Result<Connection> Of(UniqueFd socket, uid_t uid = 0);

  // The caller keeps `descriptors`. A message that is too large is kTooLarge before anything is
  // sent.
  Failure Send(const Message& message, size_t largest, Deadline deadline,
               std::span<const int> descriptors = {});
  // If `descriptors` is null, a message that carries descriptors is kBroken.
  Result<Message> Receive(size_t largest, Deadline deadline,
                          std::vector<UniqueFd>* descriptors = nullptr);
  // Sends an error that ends the connection. It ignores a failure to send.
  void SendError(std::string text, Deadline deadline);

  // Whether the peer has left, so that nobody waits for a reply.
  bool PeerLeft() const;

  int fd() const { return socket_.get(); }

 private:
  explicit Connection(UniqueFd socket) : socket_(std::move(socket)) {}
  Failure Wait(short events, Deadline deadline);

  UniqueFd socket_;
};

// One request and its reply. kRefused: the reply is an error, and this is its text.
Result<Message> Call(const std::string& path, const Message& request, Deadline deadline,
                     uid_t uid = 0);

}  // namespace berth::base::ipc
