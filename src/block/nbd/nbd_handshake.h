// The client's half of NBD's fixed newstyle negotiation, up to the transmission phase, in which the
// kernel may take the connection over (doc/proto.md of the NBD project). Each length that the
// server sends is checked against a bound.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::block {

struct NbdExport {
  uint64_t size_bytes = 0;
  uint16_t flags = 0;  // transmission flags, as the kernel's client takes them
  bool read_only() const { return (flags & 2) != 0; }
};

struct NbdConnection {
  base::UniqueFd socket;  // in the transmission phase
  NbdExport exported;
};

using NbdDeadline = std::chrono::steady_clock::time_point;

// Connects to "HOST:PORT" or "unix:/PATH". INVALID_ARGUMENT: `server` is of neither form.
// UNAVAILABLE: the name has no address, or no server accepts. DEADLINE_EXCEEDED: no name server or
// NBD server has answered.
base::StatusOr<base::UniqueFd> ConnectNbd(const std::string& server, NbdDeadline deadline);

// Asks for the export of that name. NOT_FOUND: the server has none. FAILED_PRECONDITION: the server
// speaks an older protocol, wants TLS or refuses for another reason, or its blocks are larger than
// a page. INTERNAL: its answer is not NBD. UNAVAILABLE: it closed the connection.
// DEADLINE_EXCEEDED: it did not answer.
base::StatusOr<NbdExport> NegotiateExport(const base::UniqueFd& socket, std::string_view name,
                                          NbdDeadline deadline);

// Connects and negotiates, with the errors of both functions above.
base::StatusOr<NbdConnection> OpenNbd(const std::string& server, std::string_view name,
                                      NbdDeadline deadline);

}  // namespace berth::block
