// Parses the paths of UNIX sockets, and connects to and listens on them.
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

// Connects to `path` without blocking, and gives a non-blocking socket. UNAVAILABLE, with the
// kernel's reason: no process listens. RESOURCE_EXHAUSTED: the queue of the listener is full, or
// this process has no free descriptor.
base::StatusOr<base::UniqueFd> ConnectTo(const std::string& path);

// OK if a process listens at `path`; UNAVAILABLE, with the kernel's reason, if none does. Never
// blocks.
base::Status ProbeSocket(const std::string& path);

// Binds and listens at `path` with mode 0600, and replaces a socket on which no process listens.
// FAILED_PRECONDITION: another process listens there, or `path` is not a socket. NOT_FOUND: its
// folder does not exist. PERMISSION_DENIED. Gives a non-blocking socket.
base::StatusOr<base::UniqueFd> ListenAt(const std::string& path);

}  // namespace berth::rpc
