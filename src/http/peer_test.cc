#include "http/peer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace berth::http {
namespace {

// The server's and the client's end of a connection over loopback.
std::array<base::UniqueFd, 2> Connect(int family) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  }
  socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  const base::UniqueFd listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), where, size) != 0) return {};
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), where, &size), 0);
  base::UniqueFd client(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(client.get(), where, size), 0);
  return {base::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
          std::move(client)};
}

class PeerTest : public testing::TestWithParam<int> {};

TEST_P(PeerTest, AClientOnThisMachineIsKnownByItsUser) {
  auto [server, client] = Connect(GetParam());
  if (!server.valid()) GTEST_SKIP() << "this machine has no such loopback address";
  TcpPeers peers(true);
  const std::string by_address = TcpPeers(false).NamePeer(server.get());
  EXPECT_EQ(by_address, GetParam() == AF_INET ? "127.0.0.1" : "::");
  const std::string name = peers.NamePeer(server.get());
  if (name == by_address) GTEST_SKIP() << "this kernel has no sock_diag for TCP";
  EXPECT_EQ(name, fmt::format("uid {}", geteuid()));
  // The client that has gone has no user any more.
  client.Reset();
  EXPECT_EQ(peers.NamePeer(server.get()), by_address);
}

INSTANTIATE_TEST_SUITE_P(Families, PeerTest, testing::Values(AF_INET, AF_INET6),
                         [](const auto& family) {
                           return family.param == AF_INET ? "IPv4" : "IPv6";
                         });

TEST(UnixPeerTest, AUnixClientIsKnownByItsUser) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const base::UniqueFd one(ends[0]);
  const base::UniqueFd other(ends[1]);
  EXPECT_EQ(ReadPeerUid(one.get()), geteuid());
  EXPECT_EQ(TcpPeers(true).NamePeer(one.get()), "");
}

}  // namespace
}  // namespace berth::http
