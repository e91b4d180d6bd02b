// UNIX socket addresses: what the kernel allows as a path, and whether somebody listens.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::rpc {

// The longest path of a UNIX socket (sockaddr_un holds 108 bytes with the closing NUL).
inline constexpr size_t kLongestSocketPath = 107;

// The path in `endpoint`: "unix:///run/x.sock", "unix:/run/x.sock" or "/run/x.sock".
// INVALID_ARGUMENT if it is not absolute, holds a NUL, or is longer than the kernel allows.
base::StatusOr<std::string> SocketPath(std::string_view endpoint);

// Connects to `path` without blocking. UNAVAILABLE with the kernel's reason if nobody listens;
// RESOURCE_EXHAUSTED: the queue of the listener is full.
base::StatusOr<base::UniqueFd> ConnectTo(const std::string& path);

// OK if somebody listens at `path`; UNAVAILABLE with the kernel's reason if nobody does. Never
// blocks.
base::Status ProbeSocket(const std::string& path);

// Binds and listens at `path` with mode 0600, replacing a socket that nobody listens on.
// FAILED_PRECONDITION: somebody does, or `path` is something else than a socket.
base::StatusOr<base::UniqueFd> ListenAt(const std::string& path);

}  // namespace berth::rpc
