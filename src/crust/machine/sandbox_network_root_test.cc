#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <net/ethernet.h>
#include <netinet/if_ether.h>
#include <poll.h>

#include <chrono>
#include <cstring>

#include "base/assert_ok.h"
#include "base/netlink/address.h"
#include "crust/machine/network_fixture.h"
#include "crust/machine/sandbox_network.h"

namespace berth::crust {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr size_t kHeader = 10;  // virtio_net_hdr of linux/virtio_net.h, which C++ cannot read

// Asks by ARP, as a guest with the sandbox's addresses, who has 10.99.0.1.
std::string MakeQuestion() {
  const std::string mac = base::netlink::ParseMac(TwoNetworks::kMac).value();
  const auto address = [](const char* text) {
    return base::netlink::ParseAddress(text).value().bytes;
  };
  ether_header ethernet = {};
  memset(ethernet.ether_dhost, 0xff, ETH_ALEN);
  memcpy(ethernet.ether_shost, mac.data(), ETH_ALEN);
  ethernet.ether_type = htons(ETHERTYPE_ARP);
  ether_arp arp = {};
  arp.arp_hrd = htons(ARPHRD_ETHER);
  arp.arp_pro = htons(ETHERTYPE_IP);
  arp.arp_hln = ETH_ALEN;
  arp.arp_pln = 4;
  arp.arp_op = htons(ARPOP_REQUEST);
  memcpy(arp.arp_sha, mac.data(), ETH_ALEN);
  memcpy(arp.arp_spa, address("10.99.0.2").data(), 4);
  memcpy(arp.arp_tpa, address("10.99.0.1").data(), 4);
  std::string frame(kHeader, '\0');
  frame.append(reinterpret_cast<const char*>(&ethernet), sizeof ethernet);
  frame.append(reinterpret_cast<const char*>(&arp), sizeof arp);
  return frame;
}

// Sends the question into the tap, and waits for the answer there.
bool IsAnswered(int tap) {
  const std::string question = MakeQuestion();
  EXPECT_EQ(write(tap, question.data(), question.size()), static_cast<ssize_t>(question.size()));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd ready = {tap, POLLIN, 0};
    if (poll(&ready, 1, 1000) <= 0) continue;
    char frame[4096];
    const ssize_t size = read(tap, frame, sizeof frame);
    if (size < static_cast<ssize_t>(kHeader + sizeof(ether_header) + sizeof(ether_arp))) continue;
    ether_header ethernet;
    memcpy(&ethernet, frame + kHeader, sizeof ethernet);
    ether_arp arp;
    memcpy(&arp, frame + kHeader + sizeof ethernet, sizeof arp);
    if (ntohs(ethernet.ether_type) == ETHERTYPE_ARP && ntohs(arp.arp_op) == ARPOP_REPLY)
      return true;
  }
  return false;
}

TEST(SandboxNetworkTest, TheGuestGetsWhatAPluginGaveTheSandbox) {
  const TwoNetworks networks;
  const auto network = ReadSandboxNetwork(networks.inside.path());
  ASSERT_OK(network);
  ASSERT_TRUE(network->has_value());
  EXPECT_EQ((*network)->name, "eth0");
  EXPECT_EQ((*network)->mac, TwoNetworks::kMac);
  EXPECT_EQ((*network)->mtu, 1400);
  EXPECT_THAT((*network)->addresses, UnorderedElementsAre("10.99.0.2/24", "fd00::2/64"));
  EXPECT_THAT((*network)->routes,
              UnorderedElementsAre("10.99.0.0/24|", "0.0.0.0/0|10.99.0.1", "fd00::/64|"));
  EXPECT_THAT((*network)->neighbors, ElementsAre("10.99.0.9|02:00:00:00:00:09"));
}

TEST(SandboxNetworkTest, FramesPassBothWaysAlsoAfterAnEarlierTap) {
  const TwoNetworks networks;
  const auto network = ReadSandboxNetwork(networks.inside.path());
  ASSERT_OK(network);
  const auto earlier = ConnectTap(networks.inside.path(), **network);
  ASSERT_OK(earlier);
  EXPECT_TRUE(IsAnswered(earlier->get()));
  // A handler that was killed made the first one.
  const auto tap = ConnectTap(networks.inside.path(), **network);
  ASSERT_OK(tap);
  EXPECT_TRUE(IsAnswered(tap->get()));
  // The network is told as before.
  const auto again = ReadSandboxNetwork(networks.inside.path());
  ASSERT_OK(again);
  EXPECT_EQ(NetworkRequest(**again), NetworkRequest(**network));
}

TEST(SandboxNetworkTest, TheTapEndsWithItsLastDescriptor) {
  const TwoNetworks networks;
  const auto network = ReadSandboxNetwork(networks.inside.path());
  ASSERT_OK(network);
  {
    const auto tap = ConnectTap(networks.inside.path(), **network);
    ASSERT_OK(tap);
    EXPECT_THAT(networks.inside.Ip("link"), testing::HasSubstr(kTapName));
  }
  EXPECT_THAT(networks.inside.Ip("link"), testing::Not(testing::HasSubstr(kTapName)));
}

TEST(SandboxNetworkTest, ANamespaceWithoutAnInterfaceGivesNothingAndTheHostsOwnIsRefused) {
  const HeldNetwork empty;
  const auto nothing = ReadSandboxNetwork(empty.path());
  ASSERT_OK(nothing);
  EXPECT_FALSE(nothing->has_value());
  EXPECT_EQ(ReadSandboxNetwork("/proc/self/ns/net").status().code(),
            base::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadSandboxNetwork("/proc/self/ns/no").status().code(), base::StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::crust
