// Opening, which may block for ever and therefore runs in a child.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

// A message of one byte, with room for one descriptor.
struct Parcel {
  Parcel() {
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  char byte = 0;
  iovec vector = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
};

// Returns 0 or an errno.
int SendDescriptor(int socket, int fd) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(int));
  return sendmsg(socket, &parcel.message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

base::UniqueFd ReceiveDescriptor(int socket) {
  Parcel parcel;
  if (recvmsg(socket, &parcel.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return base::UniqueFd(fd);
}

}  // namespace

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
    return fd < 0 ? 0 : SendDescriptor(to, fd);
  };
  ASSIGN_OR_RETURN(const int error, AskChild<int>(what, timeout, open, std::move(keeps)));
  OpenedInChild opened{.error = error};
  if (error != 0) return opened;
  opened.fd = ReceiveDescriptor(in.get());
  if (!opened.fd.valid()) {
    return base::Error(base::StatusCode::kInternal, "{}: no descriptor came", what);
  }
  return opened;
}

}  // namespace berth::platform
