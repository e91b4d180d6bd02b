#include "block/nbd/nbd_handshake.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/host_lookup.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;
using std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x4e42444d41474943;        // "NBDMAGIC"
constexpr uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
constexpr uint64_t kReplyMagic = 0x3e889045565a9;
constexpr uint16_t kFixedNewstyle = 1;
constexpr uint16_t kNoZeroes = 2;
constexpr uint32_t kGo = 7;
constexpr uint32_t kAck = 1;
constexpr uint32_t kInfo = 3;
constexpr uint32_t kErrorBit = 1U << 31;
constexpr uint32_t kErrorTls = kErrorBit | 5;
constexpr uint32_t kErrorUnknown = kErrorBit | 6;
constexpr uint16_t kInfoExport = 0;
constexpr uint16_t kInfoBlockSize = 3;
constexpr uint32_t kLargestReply = 64 * 1024;
constexpr int kMostReplies = 64;
constexpr uint32_t kPage = 4096;

base::Status WaitFor(int fd, short events, NbdDeadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) {
      return Error(StatusCode::kDeadlineExceeded, "the NBD server does not answer");
    }
    pollfd ready = {fd, events, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (polled > 0) return base::OkStatus();
    if (polled < 0 && errno != EINTR) return platform::ErrnoError(errno, "wait for an NBD server");
  }
}

base::Status SendAll(int fd, std::string_view bytes, NbdDeadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    } else if (n < 0 && errno != EINTR) {
      return Error(StatusCode::kUnavailable, "the NBD server closed the connection");
    }
  }
  return base::OkStatus();
}

base::StatusOr<std::string> ReceiveAll(int fd, size_t size, NbdDeadline deadline) {
  std::string bytes(size, '\0');
  for (size_t got = 0; got < size;) {
    RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    const ssize_t n = recv(fd, bytes.data() + got, size - got, MSG_DONTWAIT);
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Error(StatusCode::kUnavailable, "the NBD server closed the connection");
    }
  }
  return bytes;
}

// Reads a big-endian number, as all numbers of the protocol are.
template <typename T>
T ReadNumber(std::string_view bytes, size_t at) {
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    number = (number << 8) | static_cast<unsigned char>(bytes[at + i]);
  }
  return static_cast<T>(number);
}

template <typename T>
void AppendNumber(std::string& bytes, T number) {
  for (size_t i = sizeof(T); i-- > 0;) {
    bytes += static_cast<char>((static_cast<uint64_t>(number) >> (8 * i)) & 0xff);
  }
}

base::Status ProtocolError(std::string_view violation) {
  return Error(StatusCode::kInternal, "the NBD server does not keep to its protocol: {}",
               violation);
}

// `text` is the server's own; "": none.
base::Status RefusedError(uint32_t type, std::string_view name, std::string_view text) {
  const std::string words = text.empty() ? "" : fmt::format(": {}", base::Quote(text));
  if (type == kErrorUnknown) {
    return Error(StatusCode::kNotFound, "the NBD server has no export {}{}", base::Quote(name),
                 words);
  }
  if (type == kErrorTls) {
    return Error(StatusCode::kFailedPrecondition,
                 "the NBD server wants TLS, which the kernel's client does not speak{}", words);
  }
  return Error(StatusCode::kFailedPrecondition, "the NBD server refuses export {} (error {}){}",
               base::Quote(name), type & ~kErrorBit, words);
}

base::StatusOr<base::UniqueFd> ConnectAddress(const sockaddr* address, socklen_t size,
                                              NbdDeadline deadline) {
  base::UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return platform::ErrnoError(errno, "make a socket");
  if (connect(fd.get(), address, size) != 0) {
    if (errno != EINPROGRESS && errno != EAGAIN) {
      const int error = errno;
      return Error(StatusCode::kUnavailable, "no NBD server accepts: {}", strerrordesc_np(error));
    }
    RETURN_IF_ERROR(WaitFor(fd.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      return Error(StatusCode::kUnavailable, "no NBD server accepts: {}", strerrordesc_np(error));
    }
  }
  const int one = 1;
  if (address->sa_family != AF_UNIX) {
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  }
  // The socket must block, because the kernel's client expects that.
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

// Connects to `address`, "10.0.0.5" or "fe80::1". Reading it never asks a name server.
base::StatusOr<base::UniqueFd> ConnectPort(const std::string& address, const std::string& port,
                                           NbdDeadline deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* raw = nullptr;
  if (const int error = getaddrinfo(address.c_str(), port.c_str(), &hints, &raw); error != 0) {
    return Error(StatusCode::kUnavailable, "{}", gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> read(raw, &freeaddrinfo);
  return ConnectAddress(read->ai_addr, read->ai_addrlen, deadline);
}

}  // namespace

base::StatusOr<base::UniqueFd> ConnectNbd(const std::string& server, NbdDeadline deadline) {
  const std::string context = fmt::format("connect to {}", base::Quote(server));
  constexpr std::string_view kUnix = "unix:";
  if (server.starts_with(kUnix)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = server.substr(kUnix.size());
    if (!path.starts_with('/') || path.size() >= sizeof address.sun_path) {
      return Error(StatusCode::kInvalidArgument, "{}: it is not the path of a UNIX socket",
                   context);
    }
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    auto fd = ConnectAddress(reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
    if (!fd.ok()) return base::Annotate(fd.status(), context);
    return fd;
  }
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == server.size()) {
    return Error(StatusCode::kInvalidArgument, "{}: it is neither HOST:PORT nor unix:/PATH",
                 context);
  }
  std::string host = server.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto found = platform::ResolveHost(host, deadline);
  if (!found.ok()) return base::Annotate(found.status(), context);
  base::Status last;
  for (const std::string& address : *found) {
    auto fd = ConnectPort(address, server.substr(colon + 1), deadline);
    if (fd.ok()) return fd;
    last = base::Annotate(fd.status(), context);
  }
  return last;
}

base::StatusOr<NbdExport> NegotiateExport(const base::UniqueFd& socket, std::string_view name,
                                          NbdDeadline deadline) {
  const int fd = socket.get();
  ASSIGN_OR_RETURN(const std::string greeting, ReceiveAll(fd, 16, deadline));
  if (ReadNumber<uint64_t>(greeting, 0) != kMagic)
    return ProtocolError("its greeting is not that of NBD");
  if (ReadNumber<uint64_t>(greeting, 8) != kOptionMagic) {
    return Error(StatusCode::kFailedPrecondition, "the NBD server speaks the oldstyle protocol");
  }
  ASSIGN_OR_RETURN(const std::string flag_bytes, ReceiveAll(fd, 2, deadline));
  const auto server_flags = ReadNumber<uint16_t>(flag_bytes, 0);
  if ((server_flags & kFixedNewstyle) == 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "the NBD server does not speak the fixed newstyle protocol");
  }
  std::string request;
  AppendNumber<uint32_t>(request, kFixedNewstyle | (server_flags & kNoZeroes));
  AppendNumber<uint64_t>(request, kOptionMagic);
  AppendNumber<uint32_t>(request, kGo);
  AppendNumber<uint32_t>(request, static_cast<uint32_t>(4 + name.size() + 2 + 2));
  AppendNumber<uint32_t>(request, static_cast<uint32_t>(name.size()));
  request += name;
  AppendNumber<uint16_t>(request, 1);
  AppendNumber<uint16_t>(request, kInfoBlockSize);
  RETURN_IF_ERROR(SendAll(fd, request, deadline));
  NbdExport exported;
  bool has_size = false;
  for (int i = 0; i < kMostReplies; ++i) {
    ASSIGN_OR_RETURN(const std::string head, ReceiveAll(fd, 20, deadline));
    const auto type = ReadNumber<uint32_t>(head, 12);
    const auto length = ReadNumber<uint32_t>(head, 16);
    if (ReadNumber<uint64_t>(head, 0) != kReplyMagic || ReadNumber<uint32_t>(head, 8) != kGo) {
      return ProtocolError("a reply does not belong to the request");
    }
    if (length > kLargestReply) return ProtocolError("a reply is too long");
    ASSIGN_OR_RETURN(const std::string body, ReceiveAll(fd, length, deadline));
    if ((type & kErrorBit) != 0) return RefusedError(type, name, body);
    if (type == kAck) {
      if (!has_size) return ProtocolError("it did not send the size of the export");
      return exported;
    }
    if (type != kInfo || body.size() < 2) return ProtocolError("a reply has an unknown type");
    const auto info = ReadNumber<uint16_t>(body, 0);
    if (info == kInfoExport) {
      if (body.size() < 12) return ProtocolError("a reply is too short");
      exported.size_bytes = ReadNumber<uint64_t>(body, 2);
      exported.flags = ReadNumber<uint16_t>(body, 10);
      if (exported.size_bytes > static_cast<uint64_t>(INT64_MAX))
        return ProtocolError("the size of the export exceeds 63 bits");
      has_size = true;
    } else if (info == kInfoBlockSize) {
      if (body.size() < 14) return ProtocolError("a reply is too short");
      if (const auto least = ReadNumber<uint32_t>(body, 2); least > kPage) {
        return Error(StatusCode::kFailedPrecondition,
                     "the NBD server's blocks have {} bytes, more than the kernel's client takes",
                     least);
      }
    }
  }
  return ProtocolError("it sends too many replies");
}

base::StatusOr<NbdConnection> OpenNbd(const std::string& server, std::string_view name,
                                      NbdDeadline deadline) {
  ASSIGN_OR_RETURN(base::UniqueFd socket, ConnectNbd(server, deadline));
  const auto exported = NegotiateExport(socket, name, deadline);
  if (!exported.ok()) {
    return base::Annotate(exported.status(), fmt::format("NBD server {}", base::Quote(server)));
  }
  return NbdConnection{.socket = std::move(socket), .exported = *exported};
}

}  // namespace berth::block
