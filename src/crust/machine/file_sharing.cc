#include "crust/machine/file_sharing.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"

namespace berth::crust {
namespace {

using base::Error;
using base::StatusCode;
using base::StatusOr;

StatusOr<base::UniqueFd> ListenForQemu(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error(StatusCode::kInvalidArgument, "the path {} is too long for a socket",
                 base::Quote(path));
  }
  path.copy(address.sun_path, path.size());
  base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return platform::ErrnoError(errno, "make a socket for virtiofsd");
  if ((unlink(path.c_str()) != 0 && errno != ENOENT) ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    return platform::ErrnoError(errno, "listen at " + base::Quote(path));
  }
  return listener;
}

// A comma or a backslash in a value of "-o" has a backslash before it.
std::string EscapeOption(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == ',' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::vector<std::string> SharingArguments(const std::string& folder) {
  return {"-f", fmt::format("--fd={}", platform::kHeldFd),
          // A file that does not answer holds up one of them.
          "--thread-pool-size=8", "-o", "source=" + EscapeOption(folder),
          // A file of the host shows at once what the host changes.
          "-o", "cache=auto",
          // Files of different file systems are told apart by the device's number.
          "-o", "announce_submounts",
          // Programs of an image may have capabilities, which are such attributes.
          "-o", "xattr", "-o", "log_level=err"};
}

StatusOr<platform::DaemonId> StartSharing(const SharingOptions& options,
                                          const MachineShare& share) {
  ASSIGN_OR_RETURN(const base::UniqueFd listener, ListenForQemu(options.socket));
  return platform::StartDaemon({.program = options.program,
                                .arguments = SharingArguments(share.folder),
                                .mark = options.mark,
                                .log = options.log,
                                .held = listener.get(),
                                .mount_namespace = share.space});
}

}  // namespace berth::crust
