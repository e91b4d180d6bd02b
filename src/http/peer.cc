#include "http/peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace berth::http {

namespace {

// An IPv4 address in the first four bytes, or an IPv6 address.
struct Endpoint {
  int family = AF_UNSPEC;
  unsigned char address[16] = {};
  in_port_t port = 0;  // in network byte order

  size_t size() const { return family == AF_INET ? 4 : 16; }
  bool SameAddress(const Endpoint& other) const {
    return family == other.family && std::memcmp(address, other.address, size()) == 0;
  }
};

Endpoint ReadEndpoint(int fd, decltype(&getpeername) read) {
  Endpoint out;
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (read(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return out;
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    out.family = AF_INET;
    out.port = in.sin_port;
    std::memcpy(out.address, &in.sin_addr, 4);
  } else if (storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&in.sin6_addr);
    out.family = mapped ? AF_INET : AF_INET6;
    out.port = in.sin6_port;
    if (mapped) {
      std::memcpy(out.address, in.sin6_addr.s6_addr + 12, 4);
    } else {
      std::memcpy(out.address, &in.sin6_addr, 16);
    }
  }
  return out;
}

bool IsLoopback(const Endpoint& one) {
  if (one.family == AF_INET) return one.address[0] == 127;
  return one.family == AF_INET6 &&
         std::memcmp(one.address, &in6addr_loopback, sizeof(in6addr_loopback)) == 0;
}

// Asks for the user of the socket at `peer` that is connected with `own`.
std::optional<uid_t> FindSocketUser(int diag, uint32_t number, const Endpoint& peer,
                                    const Endpoint& own) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } request{};
  request.head = {.nlmsg_len = sizeof(request),
                  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                  .nlmsg_flags = NLM_F_REQUEST,
                  .nlmsg_seq = number,
                  .nlmsg_pid = 0};
  request.body.sdiag_family = static_cast<uint8_t>(peer.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  request.body.id.idiag_sport = peer.port;
  request.body.id.idiag_dport = own.port;
  std::memcpy(request.body.id.idiag_src, peer.address, peer.size());
  std::memcpy(request.body.id.idiag_dst, own.address, own.size());
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(diag, &request, sizeof(request), MSG_DONTWAIT) != sizeof(request)) return std::nullopt;
  // The kernel answers before send returns. An answer to an earlier question may still be there.
  alignas(nlmsghdr) char answer[1024];
  const auto& head = *reinterpret_cast<const nlmsghdr*>(answer);
  ssize_t got = 0;
  do {
    got = recv(diag, answer, sizeof(answer), MSG_DONTWAIT);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return std::nullopt;
  } while (head.nlmsg_seq != number);
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  const auto& found = *static_cast<const inet_diag_msg*>(NLMSG_DATA(&head));
  // A socket that its process has closed belongs to nobody any more.
  if (found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

}  // namespace

std::optional<uid_t> ReadPeerUid(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

TcpPeers::TcpPeers(bool by_user)
    : diag_(by_user ? socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG) : -1) {}

std::string TcpPeers::NamePeer(int fd) {
  Endpoint peer = ReadEndpoint(fd, getpeername);
  const Endpoint own = ReadEndpoint(fd, getsockname);
  if (diag_.valid() && (IsLoopback(peer) || peer.SameAddress(own))) {
    const auto uid = FindSocketUser(diag_.get(), ++number_, peer, own);
    if (uid) return fmt::format("uid {}", *uid);
  }
  if (peer.family == AF_UNSPEC) return {};
  if (peer.family == AF_INET6) std::fill(peer.address + 8, peer.address + 16, 0);
  char text[INET6_ADDRSTRLEN] = {};
  return inet_ntop(peer.family, peer.address, text, sizeof(text)) ? text : "";
}

}  // namespace berth::http
