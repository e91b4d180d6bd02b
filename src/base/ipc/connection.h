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
// The deadline that is `time` from now.
inline Deadline DeadlineIn(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

class Connection {
 public:
  Connection() = default;  // not connected
  // Connects to the socket at `path`, whose listener must run as `uid`. kNobody, kNotAllowed,
  // kTimeout, kSystem.
  static Result<Connection> Connect(const std::string& path, Deadline deadline, uid_t uid = 0);
  // Wraps a socket that was accepted or made by socketpair, whose peer must run as `uid`.
  // kNotAllowed, kSystem.
  static Result<Connection> Wrap(UniqueFd socket, uid_t uid = 0);

  // Sends one frame. The caller keeps `descriptors`. kTooLarge: the message is longer than
  // `largest` bytes; kBroken: there are more than kMostDescriptors descriptors; nothing was sent in
  // these two cases. kTimeout, kClosed, kSystem: a part may have been sent.
  Failure Send(const Message& message, size_t largest, Deadline deadline,
               std::span<const int> descriptors = {});
  // Receives one frame. If `descriptors` is null, a message that carries descriptors is kBroken.
  // kTimeout, kClosed, kBroken, kVersion, kTooLarge, kSystem.
  Result<Message> Receive(size_t largest, Deadline deadline,
                          std::vector<UniqueFd>* descriptors = nullptr);
  // Sends a reply with the error `text` and the name of its code. Failures are ignored, because the
  // peer then sees that the connection is closed.
  void SendError(std::string text, std::string_view code, Deadline deadline);

  // Whether the peer has closed the connection, so that it does not wait for a reply.
  bool HasPeerLeft() const;

  int fd() const { return socket_.get(); }

 private:
  explicit Connection(UniqueFd socket) : socket_(std::move(socket)) {}
  // Waits until poll(2) reports `events`.
  Failure WaitFor(short events, Deadline deadline);

  UniqueFd socket_;
};

// Connects, sends one request and returns its reply. kRefused: the reply is an error, and the
// failure has its text and code. Other failures are those of Connect, Send and Receive.
Result<Message> Call(const std::string& path, const Message& request, Deadline deadline,
                     uid_t uid = 0);

}  // namespace berth::base::ipc
