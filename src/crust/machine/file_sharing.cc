#include "crust/machine/file_sharing.h"

#include <fcntl.h>

#include <cerrno>

#include "platform/errno.h"
#include "rpc/unix_socket.h"

namespace berth::crust {
namespace {

using base::StatusOr;

// virtiofsd waits in accept(2) for QEMU, so the socket blocks.
StatusOr<base::UniqueFd> ListenForQemu(const std::string& path) {
  ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(path));
  const int flags = fcntl(listener.get(), F_GETFL);
  if (flags < 0 || fcntl(listener.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return platform::ErrnoError(errno, "prepare the socket of virtiofsd");
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
