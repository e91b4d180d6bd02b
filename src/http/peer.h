// Finds out who is at the other end of a connection, as the kernel knows it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace berth::http {

// The user id of the process at the other end of a UNIX connection; nullopt if the kernel has none.
std::optional<uid_t> ReadPeerUid(int fd);

// Names the clients of TCP connections for limits (seats.h). Not thread-safe.
class TcpPeers {
 public:
  // With `by_user`, a client on this machine is named by its user.
  explicit TcpPeers(bool by_user);

  // "uid 1000" for a client on this machine, whose user the kernel knows (sock_diag(7)); otherwise
  // its address without the port. An IPv6 client is named by its /64 network, because every host
  // has a whole one.
  std::string NamePeer(int fd);

 private:
  uint32_t number_ = 0;  // of the last question
  base::UniqueFd diag_;  // invalid: clients are named by their addresses
};

}  // namespace berth::http
