// For tests: a socket at which ServeExports (service.h) can listen.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace berth::block::proxy {

inline base::UniqueFd ListenAt(const std::string& path) {
  unlink(path.c_str());
  base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd.get(), 16), 0);
  return fd;
}

}  // namespace berth::block::proxy
