#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/netlink/address.h"
#include "base/netlink/message.h"
#include "base/netlink/route_socket.h"

namespace berth::base::netlink {
namespace {

TEST(AddressTest, OnlyAWholeAddressIsOne) {
  const auto prefix = ParsePrefix("10.1.2.3/24");
  ASSERT_TRUE(prefix.has_value());
  EXPECT_EQ(prefix->family, AF_INET);
  EXPECT_EQ(prefix->prefix, 24);
  EXPECT_EQ(FormatAddress(prefix->bytes), "10.1.2.3");
  const auto six = ParseAddress("fd00::1");
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->prefix, 128);
  EXPECT_EQ(FormatAddress(six->bytes), "fd00::1");
  EXPECT_TRUE(ParsePrefix("0.0.0.0/0").has_value());
  for (const char* text : {"", "10.1.2.3", "10.1.2.3/", "10.1.2.3/33", "10.1.2.3/-1", "10.1.2/24",
                           "10.1.2.3/24x", "fd00::1/129", "fd00::g/64", "/24", "10.1.2.3/+4"}) {
    EXPECT_FALSE(ParsePrefix(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseAddress("10.1.2.3/24").has_value());
  EXPECT_FALSE(ParseAddress(std::string("10.1.2.3\0x", 10)).has_value());
  EXPECT_EQ(FormatAddress("123"), "");
}

TEST(AddressTest, OnlyAWholeMacIsOne) {
  const auto mac = ParseMac("02:ab:0F:00:00:01");
  ASSERT_TRUE(mac.has_value());
  EXPECT_EQ(FormatMac(*mac), "02:ab:0f:00:00:01");
  for (const char* text : {"", "02:ab:0f:00:00", "02:ab:0f:00:00:0", "02:ab:0f:00:00:0g",
                           "02-ab-0f-00-00-01", "02:ab:0f:00:00:01:", "+2:ab:0f:00:00:01"}) {
    EXPECT_FALSE(ParseMac(text).has_value()) << text;
  }
}

TEST(NetlinkMessageTest, AttributesAreFoundAsTheyWereAdded) {
  Message message(RTM_NEWLINK, NLM_F_CREATE, ifinfomsg{.ifi_index = 7});
  message.AddText(IFLA_IFNAME, "eth0").AddNumber(IFLA_MTU, uint32_t{1400});
  const size_t nested = message.BeginNested(IFLA_LINKINFO);
  message.AddText(IFLA_INFO_KIND, "tun");
  message.EndNested(nested);
  const std::string bytes = message.Finish(5);
  std::string_view left = bytes;
  const auto header = CutHead<nlmsghdr>(left);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->nlmsg_len, bytes.size());
  EXPECT_EQ(header->nlmsg_type, RTM_NEWLINK);
  EXPECT_EQ(header->nlmsg_flags, NLM_F_REQUEST | NLM_F_CREATE);
  EXPECT_EQ(header->nlmsg_seq, 5u);
  EXPECT_EQ(CutHead<ifinfomsg>(left)->ifi_index, 7);
  EXPECT_EQ(FindText(left, IFLA_IFNAME), "eth0");
  EXPECT_EQ(FindNumber<uint32_t>(left, IFLA_MTU), 1400u);
  EXPECT_EQ(FindNumber<uint16_t>(left, IFLA_MTU), std::nullopt);
  EXPECT_EQ(FindText(FindAttribute(left, IFLA_LINKINFO).value(), IFLA_INFO_KIND), "tun");
  EXPECT_EQ(FindAttribute(left, IFLA_ADDRESS), std::nullopt);
  // Bytes that end in the middle, and lengths that lie.
  for (size_t size = 0; size < left.size(); ++size) {
    const std::string cut(left.substr(0, size));
    FindAttribute(cut, IFLA_ADDRESS);
  }
  EXPECT_EQ(FindAttribute(std::string(8, '\xff'), IFLA_ADDRESS), std::nullopt);
  EXPECT_EQ(FindAttribute(std::string(8, '\0'), IFLA_ADDRESS), std::nullopt);
}

TEST(RouteSocketTest, TheKernelListsItsInterfacesAndRefusesWhatDoesNotExist) {
  const int fd = RouteSocket::Open();
  ASSERT_GE(fd, 0);
  RouteSocket socket((UniqueFd(fd)));
  std::vector<std::string> names;
  const auto add = [&](uint16_t type, std::string_view body) {
    EXPECT_EQ(type, RTM_NEWLINK);
    ASSERT_TRUE(CutHead<ifinfomsg>(body).has_value());
    names.push_back(FindText(body, IFLA_IFNAME));
  };
  ASSERT_EQ(socket.List(RTM_GETLINK, ifinfomsg{}, add), 0);
  EXPECT_THAT(names, testing::Contains("lo"));
  const int error = socket.Change(Message(RTM_DELLINK, 0, ifinfomsg{.ifi_index = 1 << 30}));
  EXPECT_TRUE(error == ENODEV || error == EPERM) << error;
  // The socket can be used further.
  names.clear();
  ASSERT_EQ(socket.List(RTM_GETLINK, ifinfomsg{}, add), 0);
  EXPECT_THAT(names, testing::Contains("lo"));
}

}  // namespace
}  // namespace berth::base::netlink
