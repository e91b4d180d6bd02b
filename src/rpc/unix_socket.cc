#include "rpc/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"

namespace berth::rpc {
namespace {

using base::Error;
using base::StatusCode;

// As long as the kernel allows: a process that is stopped takes no connection, and those who look
// at it or call it again must not fill its queue.
constexpr int kBacklog = SOMAXCONN;

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), std::min(path.size(), kLongestSocketPath));
  return address;
}

base::StatusOr<base::UniqueFd> NewSocket() {
  base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    const int error = errno;
    return Error(StatusCode::kResourceExhausted, "make a UNIX socket: {}", strerror(error));
  }
  return fd;
}

base::Status RemoveStaleSocket(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return base::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return Error(StatusCode::kFailedPrecondition, "listen at {}: it exists and is not a socket",
                 base::Quote(path));
  }
  if (ProbeSocket(path).ok()) {
    return Error(StatusCode::kFailedPrecondition, "listen at {}: another process listens there",
                 base::Quote(path));
  }
  unlink(path.c_str());
  return base::OkStatus();
}

}  // namespace

base::StatusOr<std::string> SocketPath(std::string_view endpoint) {
  std::string_view path = endpoint;
  if (path.starts_with("unix://")) {
    path.remove_prefix(7);
  } else if (path.starts_with("unix:")) {
    path.remove_prefix(5);
  }
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return Error(StatusCode::kInvalidArgument, "{} is not an absolute path of a UNIX socket",
                 base::Quote(endpoint));
  }
  if (path.size() > kLongestSocketPath) {
    return Error(
        StatusCode::kInvalidArgument,
        "socket path {} is {} bytes long; the kernel allows at most {}: use a shorter folder",
        base::Quote(path), path.size(), kLongestSocketPath);
  }
  return std::string(path);
}

base::StatusOr<base::UniqueFd> ConnectTo(const std::string& path) {
  ASSIGN_OR_RETURN(base::UniqueFd fd, NewSocket());
  const sockaddr_un address = Address(path);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  const int error = errno;
  // The queue of connections is full: a listener exists, but it is slow.
  const bool busy = error == EAGAIN || error == EINPROGRESS;
  return Error(busy ? StatusCode::kResourceExhausted : StatusCode::kUnavailable,
               "connect to {}: {}", base::Quote(path), strerror(error));
}

base::Status ProbeSocket(const std::string& path) {
  const base::Status connected = ConnectTo(path).status();
  return connected.code() == StatusCode::kResourceExhausted ? base::OkStatus() : connected;
}

base::StatusOr<base::UniqueFd> ListenAt(const std::string& path) {
  RETURN_IF_ERROR(RemoveStaleSocket(path));
  ASSIGN_OR_RETURN(base::UniqueFd fd, NewSocket());
  // This comes before bind(), so that the file never has another mode (the kernel takes the mode
  // from the socket's inode).
  fchmod(fd.get(), 0600);
  const sockaddr_un address = Address(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    const StatusCode code = error == ENOENT       ? StatusCode::kNotFound
                            : error == EADDRINUSE ? StatusCode::kFailedPrecondition
                            : error == EACCES     ? StatusCode::kPermissionDenied
                                                  : StatusCode::kInternal;
    return Error(code, "listen at {}: {}", base::Quote(path), strerror(error));
  }
  return fd;
}

}  // namespace berth::rpc
