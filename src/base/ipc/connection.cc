#include "base/ipc/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>

#include <algorithm>

namespace berth::base::ipc {
namespace {

struct Header {
  char magic[4];
  uint16_t version;
  uint16_t descriptors;
  uint32_t length;
  uint32_t zero;
};
static_assert(sizeof(Header) == 16);
constexpr char kMagic[] = {'B', 'I', 'P', 'C'};

std::chrono::milliseconds Remaining(Deadline deadline) {
  const auto rest =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(rest, std::chrono::milliseconds(0));
}

Failure TimedOut() { return {Problem::kTimeout, "the peer did not send or receive in time"}; }
Failure Closed() { return {Problem::kClosed, "the peer closed the connection"}; }
Failure Broken(std::string text) { return {Problem::kBroken, std::move(text)}; }

Failure TooLarge(size_t size, size_t largest) {
  return {Problem::kTooLarge, "the message has " + std::to_string(size) + " bytes, and " +
                                  std::to_string(largest) + " are allowed"};
}

// The failure for `error` of a system call on the socket; kNone: the call is to be repeated.
Failure SocketFailure(const char* operation, int error) {
  if (error == EAGAIN || error == EINTR) return Ok();
  if (error == EPIPE || error == ECONNRESET) return Closed();
  return SystemFailure(operation, error);
}

Failure CheckPeer(int socket, uid_t uid) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return SystemFailure("ask for the peer's credentials", errno);
  }
  if (peer.uid == uid) return Ok();
  return {Problem::kNotAllowed,
          "the peer runs as user " + std::to_string(peer.uid) + ", not as " + std::to_string(uid)};
}

Failure CheckHeader(const Header& header, size_t largest) {
  if (memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return Broken("the message is not of this protocol");
  }
  if (header.version != kVersion) {
    return {Problem::kVersion, "the peer speaks version " + std::to_string(header.version) +
                                   " of the protocol, and this program version " +
                                   std::to_string(kVersion) + ": update the older of the two"};
  }
  if (header.zero != 0 || header.descriptors > kMostDescriptors) {
    return Broken("the header of the message is malformed");
  }
  if (header.length > largest) return TooLarge(header.length, largest);
  return Ok();
}

// The control message that carries a frame's descriptors (SCM_RIGHTS), and the memory for it.
struct Control {
  alignas(cmsghdr) char room[CMSG_SPACE(kMostDescriptors * sizeof(int))];

  void AttachDescriptors(msghdr& message, std::span<const int> descriptors) {
    memset(room, 0, sizeof(room));
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }

  static void TakeDescriptors(msghdr& message, std::vector<UniqueFd>& descriptors) {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
        descriptors.emplace_back(fd);
      }
    }
  }
};

}  // namespace

Failure SystemFailure(std::string_view context, int error) {
  return {Problem::kSystem, std::string(context) + ": " + strerror(error)};
}

Result<Connection> Connection::Connect(const std::string& path, Deadline deadline, uid_t uid) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Failure{Problem::kSystem, "the socket's path '" + path + "' is too long"};
  }
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemFailure("make a socket", errno);
  // If the listener's queue is full, connect() waits for the time-out for sending (SO_SNDTIMEO).
  const int64_t wait = std::max<int64_t>(Remaining(deadline).count(), 1);
  const timeval limit{.tv_sec = wait / 1000, .tv_usec = wait % 1000 * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    if (error == EAGAIN) return TimedOut();
    Failure failure = SystemFailure("connect to '" + path + "'", error);
    if (error == ENOENT || error == ECONNREFUSED || error == ENOTDIR) {
      failure.problem = Problem::kNobody;
    }
    return failure;
  }
  return Wrap(std::move(fd), uid);
}

Result<Connection> Connection::Wrap(UniqueFd socket, uid_t uid) {
  if (Failure failure = CheckPeer(socket.get(), uid); !failure.ok()) return failure;
  const int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return SystemFailure("set up the connection", errno);
  }
  return Connection(std::move(socket));
}

Failure Connection::WaitFor(short events, Deadline deadline) {
  pollfd entry{.fd = socket_.get(), .events = events, .revents = 0};
  while (true) {
    const int64_t rest = Remaining(deadline).count();
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(rest, 60'000)));
    if (ready > 0) return Ok();
    if (ready < 0 && errno != EINTR) return SystemFailure("wait for the peer", errno);
    if (rest == 0) return TimedOut();
  }
}

Failure Connection::Send(const Message& message, size_t largest, Deadline deadline,
                         std::span<const int> descriptors) {
  const std::string body = WriteJson(message);
  if (body.size() > largest) return TooLarge(body.size(), largest);
  if (descriptors.size() > kMostDescriptors) return Broken("too many descriptors");
  Header header{.version = kVersion,
                .descriptors = static_cast<uint16_t>(descriptors.size()),
                .length = static_cast<uint32_t>(body.size())};
  memcpy(header.magic, kMagic, sizeof(kMagic));
  std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
  frame += body;
  for (size_t sent = 0; sent < frame.size();) {
    iovec part{.iov_base = frame.data() + sent, .iov_len = frame.size() - sent};
    msghdr parts{.msg_iov = &part, .msg_iovlen = 1};
    Control control;
    if (sent == 0 && !descriptors.empty()) control.AttachDescriptors(parts, descriptors);
    const ssize_t count = sendmsg(socket_.get(), &parts, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (Failure failure = SocketFailure("send", errno); !failure.ok()) return failure;
    if (Failure failure = WaitFor(POLLOUT, deadline); !failure.ok()) return failure;
  }
  return Ok();
}

Result<Message> Connection::Receive(size_t largest, Deadline deadline,
                                    std::vector<UniqueFd>* descriptors) {
  Header header{};
  std::string body;
  std::vector<UniqueFd> received;
  size_t have = 0;  // bytes of header and body
  while (have < sizeof(header) + header.length) {
    const bool head = have < sizeof(header);
    char* place =
        head ? reinterpret_cast<char*>(&header) + have : body.data() + (have - sizeof(header));
    iovec part{.iov_base = place,
               .iov_len = (head ? sizeof(header) : sizeof(header) + header.length) - have};
    msghdr parts{.msg_iov = &part, .msg_iovlen = 1};
    Control control;
    if (head) {
      parts.msg_control = control.room;
      parts.msg_controllen = sizeof(control.room);
    }
    const ssize_t count = recvmsg(socket_.get(), &parts, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0) {
      if (Failure failure = SocketFailure("receive", errno); !failure.ok()) return failure;
      if (Failure failure = WaitFor(POLLIN, deadline); !failure.ok()) return failure;
      continue;
    }
    if (head) Control::TakeDescriptors(parts, received);
    if (count == 0) return Closed();
    if ((parts.msg_flags & MSG_CTRUNC) != 0)
      return Broken("the message carries too many descriptors");
    have += static_cast<size_t>(count);
    if (!head || have < sizeof(header)) continue;
    if (Failure failure = CheckHeader(header, largest); !failure.ok()) return failure;
    body.resize(header.length);
  }
  if (received.size() != header.descriptors)
    return Broken("the number of descriptors is not that of the header");
  if (!received.empty() && descriptors == nullptr)
    return Broken("the message carries descriptors, and none are expected");
  if (descriptors != nullptr) *descriptors = std::move(received);
  return ReadJson(body);
}

bool Connection::HasPeerLeft() const {
  pollfd entry{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) > 0;
}

void Connection::SendError(std::string text, std::string_view code, Deadline deadline) {
  (void)Send(Message().Set(kError, std::move(text)).Set(kErrorCode, std::string(code)),
             kLargestReply, deadline);
}

Result<Message> Call(const std::string& path, const Message& request, Deadline deadline,
                     uid_t uid) {
  Result<Connection> connection = Connection::Connect(path, deadline, uid);
  if (!connection.ok()) return connection.failure();
  const Failure sent = connection->Send(request, kLargestRequest, deadline);
  // The reply is read also if the peer has closed the connection, because the peer may have sent
  // the reason before.
  if (!sent.ok() && sent.problem != Problem::kClosed) return sent;
  Result<Message> reply = connection->Receive(kLargestReply, deadline);
  if (!reply.ok()) return sent.ok() ? reply.failure() : sent;
  if (const std::string* error = reply->FindText(kError)) {
    const std::string* code = reply->FindText(kErrorCode);
    return Failure{Problem::kRefused, *error, code != nullptr ? *code : std::string()};
  }
  return reply;
}

}  // namespace berth::base::ipc
