// Opening, which may block for ever and therefore runs in a child.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/processes/child.h"
#include "platform/processes/descriptor_message.h"

namespace berth::platform {

base::StatusOr<OpenedInChild> OpenInChild(std::string_view what, std::chrono::milliseconds timeout,
                                          std::function<int()> body, std::vector<int> keeps) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(errno, fmt::format("{}: socketpair", what));
  }
  const base::UniqueFd in(ends[0]), out(ends[1]);
  keeps.push_back(out.get());
  const auto open = [body = std::move(body), to = out.get()](int& error) {
    const int fd = body();
    error = fd < 0 ? -fd : 0;
    return fd < 0 ? 0 : SendDescriptor(to, 0, fd);
  };
  ASSIGN_OR_RETURN(const int error, AskChild<int>(what, timeout, open, std::move(keeps)));
  OpenedInChild opened{.error = error};
  if (error != 0) return opened;
  opened.fd = ReceiveDescriptor(in.get()).fd;
  if (!opened.fd.valid()) {
    return base::Error(base::StatusCode::kInternal, "{}: no descriptor came", what);
  }
  return opened;
}

}  // namespace berth::platform
