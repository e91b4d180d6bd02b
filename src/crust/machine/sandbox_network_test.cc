#include "crust/machine/sandbox_network.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "base/ipc/guest_call.h"
#include "base/netlink/address.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Bytes(const std::string& address) {
  return base::netlink::ParseAddress(address).value().bytes;
}

NetworkList::Link Ethernet(int number, const std::string& name) {
  return {.number = number,
          .name = name,
          .up = true,
          .ethernet = true,
          .mac = base::netlink::ParseMac("02:00:00:00:00:42").value(),
          .mtu = 1400};
}

NetworkList OneInterface() {
  return {
      .links = {{.number = 1, .name = "lo", .loopback = true, .up = true, .ethernet = false},
                {.number = 2, .name = "tunl0", .ethernet = false},
                Ethernet(3, "eth0"),
                Ethernet(4, kTapName)},
      .addresses = {{.link = 1, .bytes = Bytes("127.0.0.1"), .prefix = 8},
                    {.link = 3, .bytes = Bytes("10.1.2.3"), .prefix = 24},
                    {.link = 3, .bytes = Bytes("fd00::3"), .prefix = 64}},
      .routes = {{.link = 3, .family = AF_INET, .gateway = Bytes("10.1.2.1")},
                 {.link = 3, .family = AF_INET, .destination = Bytes("10.1.2.0"), .prefix = 24},
                 {.link = 3, .family = AF_INET6, .destination = Bytes("fe80::"), .prefix = 64},
                 {.link = 3, .family = AF_INET6, .gateway = Bytes("fd00::1")}},
      .neighbors = {{.link = 3, .bytes = Bytes("10.1.2.9"), .mac = "\x02\x01\x01\x01\x01\x09"}}};
}

TEST(DescribeNetworkTest, AGuestGetsWhatTheInterfaceHas) {
  const auto network = DescribeNetwork(OneInterface());
  ASSERT_OK(network);
  ASSERT_TRUE(network->has_value());
  EXPECT_EQ((*network)->interface, 3);
  EXPECT_EQ((*network)->name, "eth0");
  EXPECT_EQ((*network)->mac, "02:00:00:00:00:42");
  EXPECT_EQ((*network)->mtu, 1400);
  EXPECT_THAT((*network)->addresses, ElementsAre("10.1.2.3/24", "fd00::3/64"));
  EXPECT_THAT((*network)->routes,
              ElementsAre("0.0.0.0/0|10.1.2.1", "10.1.2.0/24|", "::/0|fd00::1"));
  EXPECT_THAT((*network)->neighbors, ElementsAre("10.1.2.9|02:01:01:01:01:09"));
  const base::ipc::Message request = NetworkRequest(**network);
  EXPECT_EQ(*request.FindText("method"), "guest.network");
  EXPECT_THAT(*request.FindList("routes"), testing::SizeIs(3));
}

TEST(DescribeNetworkTest, ANamespaceWithTheLoopbackAloneGivesNoCard) {
  NetworkList list = OneInterface();
  list.links.resize(2);
  const auto network = DescribeNetwork(list);
  ASSERT_OK(network);
  EXPECT_FALSE(network->has_value());
}

TEST(DescribeNetworkTest, ASecondInterfaceIsNamedAndRefused) {
  NetworkList list = OneInterface();
  list.links.insert(list.links.begin(), Ethernet(9, "net1"));
  const auto network = DescribeNetwork(list);
  EXPECT_EQ(network.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(base::Message(network.status())),
              HasSubstr("interface 'net1' beside 'eth0'"));
}

TEST(DescribeNetworkTest, WhatIsNoEthernetAndARouteWithSeveralWaysAreRefused) {
  NetworkList list = OneInterface();
  list.links[2].ethernet = false;
  EXPECT_EQ(DescribeNetwork(list).status().code(), StatusCode::kUnimplemented);
  list = OneInterface();
  list.routes.push_back({.link = 0, .family = AF_INET});
  EXPECT_EQ(DescribeNetwork(list).status().code(), StatusCode::kUnimplemented);
  list = OneInterface();
  list.neighbors.resize(kMostNetworkEntries + 1, list.neighbors.front());
  EXPECT_EQ(DescribeNetwork(list).status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace berth::crust
