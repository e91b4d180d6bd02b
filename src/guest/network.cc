#include "guest/network.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ipc/guest_call.h"
#include "base/netlink/address.h"
#include "base/netlink/route_socket.h"
#include "guest/control.h"
#include "guest/files.h"

namespace berth::guest {
namespace {

namespace calls = base::ipc::guest;
namespace netlink = base::netlink;

constexpr size_t kMostEntries = 1024;                      // of each kind
constexpr int64_t kSmallestMtu = 68, kLargestMtu = 65535;  // of IPv4
constexpr uint16_t kReplace = NLM_F_CREATE | NLM_F_REPLACE;

struct Route {
  netlink::Address destination;
  std::optional<netlink::Address> gateway;
};
struct Neighbor {
  netlink::Address address;
  std::string mac;
};
struct Network {
  std::string name, mac;
  uint32_t mtu = 0;
  std::vector<netlink::Address> addresses;
  std::vector<Route> routes;
  std::vector<Neighbor> neighbors;
};

bool IsInterfaceName(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ || name == "." || name == "..") return false;
  for (const char c : name) {
    if (c <= ' ' || c == '/' || c == ':' || c == '%' || c == 0x7f) return false;
  }
  return true;
}

std::optional<Route> ParseRoute(const std::string& text) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) return std::nullopt;
  const auto destination = netlink::ParsePrefix(text.substr(0, bar));
  if (!destination.has_value()) return std::nullopt;
  Route route{.destination = *destination};
  if (bar + 1 == text.size()) return route;
  route.gateway = netlink::ParseAddress(text.substr(bar + 1));
  if (!route.gateway.has_value() || route.gateway->family != destination->family) {
    return std::nullopt;
  }
  return route;
}

std::optional<Neighbor> ParseNeighbor(const std::string& text) {
  const size_t bar = text.find('|');
  if (bar == std::string::npos) return std::nullopt;
  const auto address = netlink::ParseAddress(text.substr(0, bar));
  const auto mac = netlink::ParseMac(std::string_view(text).substr(bar + 1));
  if (!address.has_value() || !mac.has_value()) return std::nullopt;
  return Neighbor{.address = *address, .mac = *mac};
}

// Parses each text of the list. "" or what is wrong.
template <typename Entry, typename Parse>
std::string ParseList(const base::ipc::Message& request, std::string_view field, Parse parse,
                      std::vector<Entry>& entries) {
  const base::ipc::Strings* texts = request.FindList(field);
  if (texts == nullptr || texts->size() > kMostEntries) {
    return "the request has no list '" + std::string(field) + "', or it is too long";
  }
  for (const std::string& text : *texts) {
    auto entry = parse(text);
    if (!entry.has_value()) {
      return "'" + text.substr(0, 128) + "' is none of the " + std::string(field);
    }
    entries.push_back(*std::move(entry));
  }
  return "";
}

// "" or what is wrong.
std::string ParseNetwork(const base::ipc::Message& request, Network& network) {
  const std::string* name = request.FindText(calls::kName);
  if (name == nullptr || !IsInterfaceName(*name)) return "the card has no name that fits";
  network.name = *name;
  const std::string* mac = request.FindText(calls::kMac);
  const auto bytes = netlink::ParseMac(mac != nullptr ? *mac : "");
  if (!bytes.has_value()) return "the card has no hardware address";
  network.mac = *bytes;
  const int64_t mtu = request.FindNumber(calls::kMtu).value_or(0);
  if (mtu < kSmallestMtu || mtu > kLargestMtu) return "the card has no MTU that fits";
  network.mtu = static_cast<uint32_t>(mtu);
  std::string wrong =
      ParseList(request, calls::kAddresses, netlink::ParsePrefix, network.addresses);
  if (wrong.empty()) wrong = ParseList(request, calls::kRoutes, ParseRoute, network.routes);
  if (wrong.empty()) {
    wrong = ParseList(request, calls::kNeighbors, ParseNeighbor, network.neighbors);
  }
  return wrong;
}

struct Link {
  int number = 0;
  std::string name, mac;
};

// 0 or an errno.
int ListCards(netlink::RouteSocket& socket, std::vector<Link>& links) {
  return socket.List(RTM_GETLINK, ifinfomsg{}, [&links](uint16_t, std::string_view body) {
    const auto head = netlink::CutHead<ifinfomsg>(body);
    if (!head.has_value()) return;
    links.push_back({.number = head->ifi_index,
                     .name = netlink::FindText(body, IFLA_IFNAME),
                     .mac = std::string(netlink::FindAttribute(body, IFLA_ADDRESS).value_or(""))});
  });
}

int SetUp(netlink::RouteSocket& socket, int link, uint32_t mtu) {
  ifinfomsg head = {};
  head.ifi_index = link;
  head.ifi_flags = IFF_UP;
  head.ifi_change = IFF_UP;
  netlink::Message message(RTM_NEWLINK, 0, head);
  if (mtu != 0) message.AddNumber(IFLA_MTU, mtu);
  return socket.Change(message);
}

int Rename(netlink::RouteSocket& socket, int link, const std::string& name) {
  ifinfomsg head = {};
  head.ifi_index = link;
  netlink::Message message(RTM_NEWLINK, 0, head);
  message.AddText(IFLA_IFNAME, name);
  return socket.Change(message);
}

int AddAddress(netlink::RouteSocket& socket, int link, const netlink::Address& address) {
  ifaddrmsg head = {};
  head.ifa_family = static_cast<uint8_t>(address.family);
  head.ifa_prefixlen = static_cast<uint8_t>(address.prefix);
  head.ifa_index = static_cast<uint32_t>(link);
  netlink::Message message(RTM_NEWADDR, kReplace, head);
  // The routes are given apart. Nobody else has the address: it was the sandbox's before.
  message.Add(IFA_LOCAL, address.bytes)
      .Add(IFA_ADDRESS, address.bytes)
      .AddNumber(IFA_FLAGS, uint32_t{IFA_F_NOPREFIXROUTE | IFA_F_NODAD});
  constexpr int kMostWithBroadcast = 30;
  if (address.family == AF_INET && address.prefix <= kMostWithBroadcast) {
    std::string broadcast = address.bytes;
    for (int bit = address.prefix; bit < 32; ++bit) {
      broadcast[static_cast<size_t>(bit) / 8] |= static_cast<char>(0x80 >> (bit % 8));
    }
    message.Add(IFA_BROADCAST, broadcast);
  }
  return socket.Change(message);
}

int AddRoute(netlink::RouteSocket& socket, int link, const Route& route) {
  rtmsg head = {};
  head.rtm_family = static_cast<uint8_t>(route.destination.family);
  head.rtm_dst_len = static_cast<uint8_t>(route.destination.prefix);
  head.rtm_table = RT_TABLE_MAIN;
  head.rtm_protocol = RTPROT_BOOT;
  head.rtm_type = RTN_UNICAST;
  const bool on_link = !route.gateway.has_value();
  head.rtm_scope = on_link ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  // The gateway is on the link, whether a route leads to it or not.
  if (!on_link) head.rtm_flags = RTNH_F_ONLINK;
  netlink::Message message(RTM_NEWROUTE, kReplace, head);
  if (route.destination.prefix > 0) message.Add(RTA_DST, route.destination.bytes);
  if (!on_link) message.Add(RTA_GATEWAY, route.gateway->bytes);
  message.AddNumber(RTA_OIF, static_cast<uint32_t>(link));
  return socket.Change(message);
}

int AddNeighbor(netlink::RouteSocket& socket, int link, const Neighbor& neighbor) {
  ndmsg head = {};
  head.ndm_family = static_cast<uint8_t>(neighbor.address.family);
  head.ndm_ifindex = link;
  head.ndm_state = NUD_PERMANENT;
  netlink::Message message(RTM_NEWNEIGH, kReplace, head);
  message.Add(NDA_DST, neighbor.address.bytes).Add(NDA_LLADDR, neighbor.mac);
  return socket.Change(message);
}

base::ipc::Message NetworkError(std::string_view what, int error) {
  return ErrorReply("INTERNAL", Describe(what, error));
}

}  // namespace

base::ipc::Message ConfigureNetwork(const base::ipc::Message& request) {
  Network network;
  if (std::string wrong = ParseNetwork(request, network); !wrong.empty()) {
    return ErrorReply("INVALID_ARGUMENT", std::move(wrong));
  }
  const int fd = netlink::RouteSocket::Open();
  if (fd < 0) return NetworkError("open a socket for the guest's network", -fd);
  netlink::RouteSocket socket((base::UniqueFd(fd)));
  std::vector<Link> links;
  if (const int error = ListCards(socket, links); error != 0) {
    return NetworkError("list the guest's network interfaces", error);
  }
  const Link* card = nullptr;
  for (const Link& link : links) {
    if (link.mac == network.mac) card = &link;
  }
  if (card == nullptr) {
    return ErrorReply("NOT_FOUND", "the guest has no network card with the address " +
                                       netlink::FormatMac(network.mac));
  }
  for (const Link& link : links) {
    if (link.name != "lo") continue;
    if (const int error = SetUp(socket, link.number, 0); error != 0) {
      return NetworkError("set the guest's loopback up", error);
    }
  }
  if (card->name != network.name) {
    if (const int error = Rename(socket, card->number, network.name); error != 0) {
      return NetworkError("name the guest's network card " + network.name, error);
    }
  }
  if (const int error = SetUp(socket, card->number, network.mtu); error != 0) {
    return NetworkError("set the guest's network card up", error);
  }
  for (const netlink::Address& address : network.addresses) {
    if (const int error = AddAddress(socket, card->number, address); error != 0) {
      return NetworkError("add the address " + netlink::FormatAddress(address.bytes), error);
    }
  }
  for (const Route& route : network.routes) {
    if (const int error = AddRoute(socket, card->number, route); error != 0) {
      return NetworkError("add the route to " + netlink::FormatAddress(route.destination.bytes),
                          error);
    }
  }
  for (const Neighbor& neighbor : network.neighbors) {
    if (const int error = AddNeighbor(socket, card->number, neighbor); error != 0) {
      return NetworkError("add the neighbor " + netlink::FormatAddress(neighbor.address.bytes),
                          error);
    }
  }
  return {};
}

}  // namespace berth::guest
