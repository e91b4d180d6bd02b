#include "platform/processes/descriptor_message.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace berth::platform {
namespace {

// A message of one number, with room for one descriptor.
struct Parcel {
  Parcel() {
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  int number = 0;
  iovec vector = {.iov_base = &number, .iov_len = sizeof(number)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
};

}  // namespace

int SendDescriptor(int socket, int number, int fd) {
  Parcel parcel;
  parcel.number = number;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(int));
  return sendmsg(socket, &parcel.message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

DescriptorMessage ReceiveDescriptor(int socket) {
  Parcel parcel;
  const ssize_t n = recvmsg(socket, &parcel.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n != static_cast<ssize_t>(sizeof(parcel.number))) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(int));
  return {.number = parcel.number, .fd = base::UniqueFd(fd)};
}

}  // namespace berth::platform
