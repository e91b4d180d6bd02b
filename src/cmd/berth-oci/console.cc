#include "cmd/berth-oci/console.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

namespace berth::oci {

namespace ipc = base::ipc;
using base::UniqueFd;
using ipc::Failure;
using ipc::Result;

namespace {

Failure SendMaster(const std::string& path, int master, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return ipc::SystemFailure("connect to the console socket '" + path + "'", ENAMETOOLONG);
  }
  memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ipc::SystemFailure("connect to the console socket '" + path + "'", errno);
  }
  std::string text = name;
  iovec data = {.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &master, sizeof(master));
  if (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    return ipc::SystemFailure("send the terminal to '" + path + "'", errno);
  }
  return ipc::Ok();
}

}  // namespace

Result<UniqueFd> OpenConsole(const std::string& path) {
  const UniqueFd master(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!master.valid()) return ipc::SystemFailure("open '/dev/ptmx'", errno);
  int number = 0;
  const int unlocked = 0;
  if (ioctl(master.get(), TIOCGPTN, &number) != 0 ||
      ioctl(master.get(), TIOCSPTLCK, &unlocked) != 0) {
    return ipc::SystemFailure("make a terminal", errno);
  }
  UniqueFd slave(ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave.valid()) return ipc::SystemFailure("open a terminal", errno);
  termios settings{};
  if (tcgetattr(slave.get(), &settings) != 0) {
    return ipc::SystemFailure("read the settings of a terminal", errno);
  }
  cfmakeraw(&settings);
  if (tcsetattr(slave.get(), TCSANOW, &settings) != 0) {
    return ipc::SystemFailure("set up a terminal", errno);
  }
  if (Failure sent = SendMaster(path, master.get(), "/dev/pts/" + std::to_string(number));
      !sent.ok()) {
    return sent;
  }
  return slave;
}

}  // namespace berth::oci
