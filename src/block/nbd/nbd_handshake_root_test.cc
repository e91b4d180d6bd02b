#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "block/nbd/nbd_handshake.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

void StartLoopback() {
  const base::UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  std::string_view("lo").copy(request.ifr_name, IFNAMSIZ);
  request.ifr_flags = IFF_UP;
  ASSERT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

TEST(NbdHandshakeTest, ASilentNameServerDoesNotOutlastTheDeadline) {
  const platform::TempFolder folder;
  const std::string resolver = folder / "resolver", sources = folder / "sources";
  std::ofstream(resolver) << "nameserver 127.0.0.1\noptions timeout:5 attempts:1\n";
  std::ofstream(sources) << "hosts: dns\n";
  // The thread that asks the resolver inherits the namespaces of this one.
  std::jthread([&] {
    ASSERT_EQ(unshare(CLONE_NEWNS | CLONE_NEWNET), 0);
    ASSERT_EQ(mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(mount(resolver.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(mount(sources.c_str(), "/etc/nsswitch.conf", nullptr, MS_BIND, nullptr), 0);
    StartLoopback();
    const base::UniqueFd silent(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = {.sin_family = AF_INET,
                                 .sin_port = htons(53),
                                 .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    ASSERT_EQ(bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const auto connected = ConnectNbd("images.example:10809",
                                      std::chrono::steady_clock::now() + std::chrono::seconds(1));
    EXPECT_EQ(connected.status().code(), base::StatusCode::kDeadlineExceeded) << connected.status();
  }).join();
}

}  // namespace
}  // namespace berth::block
