#include "crust/machine/sandbox_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/ipc/guest_call.h"
#include "base/log.h"
#include "base/netlink/address.h"
#include "base/netlink/route_socket.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;
namespace calls = base::ipc::guest;
namespace netlink = base::netlink;

constexpr std::chrono::seconds kEnterTime(10);
constexpr uint32_t kIngress = 0xffff0000;  // the handle of each ingress queue
constexpr uint32_t kPriority = 1;

// Runs in a child process. Enters the network namespace at `path`. 0 or an errno; EXDEV: it is this
// process's own.
int EnterNetwork(const char* path) {
  const int space = open(path, O_RDONLY | O_CLOEXEC);
  if (space < 0) return errno;
  struct stat own, found;
  if (stat("/proc/self/ns/net", &own) != 0 || fstat(space, &found) != 0) return errno;
  if (own.st_dev == found.st_dev && own.st_ino == found.st_ino) return EXDEV;
  return setns(space, CLONE_NEWNET) == 0 ? 0 : errno;
}

// Calls `open` in a child process that is in the namespace. `open` returns a descriptor or a
// negative errno.
StatusOr<UniqueFd> OpenInNetwork(const std::string& path, int (*open)()) {
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild("enter the sandbox's network", kEnterTime, [path, open] {
                     const int error = EnterNetwork(path.c_str());
                     return error == 0 ? open() : -error;
                   }));
  if (opened.error == EXDEV) {
    return Error(StatusCode::kInvalidArgument,
                 "the network namespace {} is the host's own, which no guest gets", Quote(path));
  }
  if (opened.error != 0) {
    return platform::ErrnoError(opened.error, "use the network namespace " + Quote(path));
  }
  return std::move(opened.fd);
}

StatusOr<netlink::RouteSocket> OpenRoutes(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenInNetwork(path, netlink::RouteSocket::Open));
  return netlink::RouteSocket(std::move(fd));
}

std::string AttributeBytes(std::string_view attributes, uint16_t type) {
  return std::string(netlink::FindAttribute(attributes, type).value_or(std::string_view()));
}

void AddLink(NetworkList& list, std::string_view body) {
  const auto head = netlink::CutHead<ifinfomsg>(body);
  if (!head.has_value()) return;
  list.links.push_back({.number = head->ifi_index,
                        .name = netlink::FindText(body, IFLA_IFNAME),
                        .loopback = (head->ifi_flags & IFF_LOOPBACK) != 0,
                        .up = (head->ifi_flags & IFF_UP) != 0,
                        .ethernet = head->ifi_type == ARPHRD_ETHER,
                        .mac = AttributeBytes(body, IFLA_ADDRESS),
                        .mtu = netlink::FindNumber<uint32_t>(body, IFLA_MTU).value_or(0)});
}

void AddAddress(NetworkList& list, std::string_view body) {
  const auto head = netlink::CutHead<ifaddrmsg>(body);
  // The guest makes its own address of the link.
  if (!head.has_value() || (head->ifa_family == AF_INET6 && head->ifa_scope == RT_SCOPE_LINK)) {
    return;
  }
  // IFA_ADDRESS is the other end's on a link between two.
  std::string bytes = AttributeBytes(body, IFA_LOCAL);
  if (bytes.empty()) bytes = AttributeBytes(body, IFA_ADDRESS);
  list.addresses.push_back({.link = static_cast<int>(head->ifa_index),
                            .bytes = std::move(bytes),
                            .prefix = head->ifa_prefixlen});
}

void AddRoute(NetworkList& list, std::string_view body) {
  const auto head = netlink::CutHead<rtmsg>(body);
  if (!head.has_value() || head->rtm_type != RTN_UNICAST) return;
  if (head->rtm_family != AF_INET && head->rtm_family != AF_INET6) return;
  if (netlink::FindNumber<uint32_t>(body, RTA_TABLE).value_or(head->rtm_table) != RT_TABLE_MAIN)
    return;
  NetworkList::Route route = {
      .link = static_cast<int>(netlink::FindNumber<uint32_t>(body, RTA_OIF).value_or(0)),
      .family = head->rtm_family,
      .destination = AttributeBytes(body, RTA_DST),
      .prefix = head->rtm_dst_len,
      .gateway = AttributeBytes(body, RTA_GATEWAY)};
  if (netlink::FindAttribute(body, RTA_VIA).has_value()) route.link = 0;
  list.routes.push_back(std::move(route));
}

void AddNeighbor(NetworkList& list, std::string_view body) {
  const auto head = netlink::CutHead<ndmsg>(body);
  if (!head.has_value() || (head->ndm_state & NUD_PERMANENT) == 0) return;
  if (head->ndm_family != AF_INET && head->ndm_family != AF_INET6) return;
  list.neighbors.push_back({.link = head->ndm_ifindex,
                            .bytes = AttributeBytes(body, NDA_DST),
                            .mac = AttributeBytes(body, NDA_LLADDR)});
}

bool IsOfLink(const NetworkList::Route& route) {
  constexpr unsigned char kFirst = 0xfe, kSecond = 0x80, kMask = 0xc0;
  return route.family == AF_INET6 && route.destination.size() == sizeof(in6_addr) &&
         static_cast<unsigned char>(route.destination[0]) == kFirst &&
         (static_cast<unsigned char>(route.destination[1]) & kMask) == kSecond;
}

// The link that the guest gets: that of a default route, else the first; nullptr: there is none.
const NetworkList::Link* ChooseLink(const NetworkList& list,
                                    const std::vector<const NetworkList::Link*>& links) {
  for (const auto* link : links) {
    for (const NetworkList::Route& route : list.routes) {
      if (route.prefix == 0 && route.link == link->number) return link;
    }
  }
  return links.empty() ? nullptr : links.front();
}

Status CheckBounds(const SandboxNetwork& network) {
  const size_t most =
      std::max({network.addresses.size(), network.routes.size(), network.neighbors.size()});
  if (most <= kMostNetworkEntries) return base::OkStatus();
  return Error(StatusCode::kUnimplemented,
               "the interface {} has {} addresses, routes or neighbors, and a guest {} at most",
               Quote(network.name), most, kMostNetworkEntries);
}

Status ChangeNetwork(netlink::RouteSocket& routes, std::string_view what,
                     const netlink::Message& request) {
  const int error = routes.Change(request);
  return error == 0 ? base::OkStatus()
                    : platform::ErrnoError(error, fmt::format("{} in the sandbox's network", what));
}

// Removes what an earlier process left; what is not there counts as removed.
Status RemoveFromNetwork(netlink::RouteSocket& routes, std::string_view what,
                         const netlink::Message& request) {
  const int error = routes.Change(request);
  if (error == 0 || error == ENODEV || error == ENOENT || error == EINVAL) return base::OkStatus();
  return platform::ErrnoError(error, fmt::format("{} in the sandbox's network", what));
}

tcmsg IngressOf(int link) {
  return {.tcm_family = AF_UNSPEC,
          .tcm_ifindex = link,
          .tcm_handle = kIngress,
          .tcm_parent = TC_H_INGRESS};
}

// Passes all frames that come in at `from` out at `to`.
Status RedirectFrames(netlink::RouteSocket& routes, int from, int to) {
  RETURN_IF_ERROR(RemoveFromNetwork(routes, "remove the ingress queue",
                                    netlink::Message(RTM_DELQDISC, 0, IngressOf(from))));
  netlink::Message queue(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, IngressOf(from));
  queue.AddText(TCA_KIND, "ingress");
  RETURN_IF_ERROR(ChangeNetwork(routes, "make an ingress queue", queue));
  tcmsg head = IngressOf(from);
  head.tcm_handle = 0;
  head.tcm_parent = kIngress;
  head.tcm_info = TC_H_MAKE(kPriority << 16, htons(ETH_P_ALL));
  netlink::Message filter(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, head);
  filter.AddText(TCA_KIND, "u32");
  const size_t options = filter.BeginNested(TCA_OPTIONS);
  // One key without a mask fits every frame.
  tc_u32_sel selector = {};
  selector.flags = TC_U32_TERMINAL;
  selector.nkeys = 1;
  const tc_u32_key key = {};
  std::string match(netlink::BytesOf(selector));
  match += netlink::BytesOf(key);
  filter.Add(TCA_U32_SEL, match);
  const size_t actions = filter.BeginNested(TCA_U32_ACT);
  const size_t first = filter.BeginNested(1);
  filter.AddText(TCA_ACT_KIND, "mirred");
  const size_t of_action = filter.BeginNested(TCA_ACT_OPTIONS);
  tc_mirred redirect = {};
  redirect.action = TC_ACT_STOLEN;
  redirect.eaction = TCA_EGRESS_REDIR;
  redirect.ifindex = static_cast<uint32_t>(to);
  filter.AddNumber(TCA_MIRRED_PARMS, redirect);
  filter.EndNested(of_action);
  filter.EndNested(first);
  filter.EndNested(actions);
  filter.EndNested(options);
  return ChangeNetwork(routes, "pass frames on", filter);
}

}  // namespace

StatusOr<std::optional<SandboxNetwork>> DescribeNetwork(const NetworkList& list) {
  std::vector<const NetworkList::Link*> links;
  for (const NetworkList::Link& link : list.links) {
    // Tunnels that a kernel has in every namespace are down.
    if (!link.loopback && link.up && link.name != kTapName) links.push_back(&link);
  }
  const NetworkList::Link* chosen = ChooseLink(list, links);
  if (chosen == nullptr) return std::optional<SandboxNetwork>();
  for (const auto* link : links) {
    if (link == chosen) continue;
    return Error(StatusCode::kUnimplemented,
                 "the sandbox has the network interface {} beside {}, and a guest gets one only",
                 Quote(link->name), Quote(chosen->name));
  }
  SandboxNetwork network{.interface = chosen->number,
                         .name = chosen->name,
                         .mac = netlink::FormatMac(chosen->mac),
                         .mtu = chosen->mtu};
  if (!chosen->ethernet || !netlink::ParseMac(network.mac).has_value()) {
    return Error(StatusCode::kUnimplemented,
                 "the sandbox's network interface {} is no Ethernet, and a guest gets no other",
                 Quote(chosen->name));
  }
  for (const NetworkList::Address& address : list.addresses) {
    if (address.link != chosen->number) continue;
    network.addresses.push_back(
        fmt::format("{}/{}", netlink::FormatAddress(address.bytes), address.prefix));
  }
  for (const NetworkList::Route& route : list.routes) {
    if (route.link == 0) {
      return Error(StatusCode::kUnimplemented,
                   "the sandbox has a route with several ways or with a gateway of another kind, "
                   "which a guest cannot have");
    }
    if (route.link != chosen->number || IsOfLink(route)) continue;
    std::string destination = netlink::FormatAddress(route.destination);
    if (destination.empty()) destination = route.family == AF_INET ? "0.0.0.0" : "::";
    network.routes.push_back(
        fmt::format("{}/{}|{}", destination, route.prefix, netlink::FormatAddress(route.gateway)));
  }
  for (const NetworkList::Neighbor& neighbor : list.neighbors) {
    if (neighbor.link != chosen->number) continue;
    network.neighbors.push_back(fmt::format("{}|{}", netlink::FormatAddress(neighbor.bytes),
                                            netlink::FormatMac(neighbor.mac)));
  }
  RETURN_IF_ERROR(CheckBounds(network));
  return std::optional(std::move(network));
}

StatusOr<std::optional<SandboxNetwork>> ReadSandboxNetwork(const std::string& path) {
  ASSIGN_OR_RETURN(netlink::RouteSocket routes, OpenRoutes(path));
  NetworkList list;
  const auto add = [&list](uint16_t type, std::string_view body) {
    switch (type) {
      case RTM_NEWLINK:
        return AddLink(list, body);
      case RTM_NEWADDR:
        return AddAddress(list, body);
      case RTM_NEWROUTE:
        return AddRoute(list, body);
      case RTM_NEWNEIGH:
        return AddNeighbor(list, body);
      default:
        return;
    }
  };
  int error = routes.List(RTM_GETLINK, ifinfomsg{}, add);
  if (error == 0) error = routes.List(RTM_GETADDR, ifaddrmsg{}, add);
  if (error == 0) error = routes.List(RTM_GETROUTE, rtmsg{}, add);
  if (error == 0) error = routes.List(RTM_GETNEIGH, ndmsg{}, add);
  if (error != 0) return platform::ErrnoError(error, "read the sandbox's network");
  return DescribeNetwork(list);
}

StatusOr<UniqueFd> ConnectTap(const std::string& path, const SandboxNetwork& network) {
  ASSIGN_OR_RETURN(netlink::RouteSocket routes, OpenRoutes(path));
  netlink::Message removal(RTM_DELLINK, 0, ifinfomsg{});
  removal.AddText(IFLA_IFNAME, kTapName);
  RETURN_IF_ERROR(RemoveFromNetwork(routes, "remove an earlier tap", removal));
  // A tap belongs to the namespace in which the device was opened.
  ASSIGN_OR_RETURN(UniqueFd tap, OpenInNetwork(path, [] {
                     const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
                     return fd < 0 ? -errno : fd;
                   }));
  ifreq request = {};
  std::string_view(kTapName).copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL);
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) {
    return platform::ErrnoError(errno, "make a tap in the sandbox's network");
  }
  int number = 0;
  const auto find = [&number](uint16_t, std::string_view body) {
    const auto head = netlink::CutHead<ifinfomsg>(body);
    if (head.has_value() && netlink::FindText(body, IFLA_IFNAME) == kTapName) {
      number = head->ifi_index;
    }
  };
  const int error = routes.List(RTM_GETLINK, ifinfomsg{}, find);
  if (error != 0 || number == 0) {
    return platform::ErrnoError(error != 0 ? error : ENODEV, "find the tap that was made");
  }
  ifinfomsg up = {};
  up.ifi_index = number;
  up.ifi_flags = IFF_UP;
  up.ifi_change = IFF_UP;
  netlink::Message set(RTM_NEWLINK, 0, up);
  set.AddNumber(IFLA_MTU, static_cast<uint32_t>(network.mtu));
  RETURN_IF_ERROR(ChangeNetwork(routes, "set the tap up", set));
  RETURN_IF_ERROR(RedirectFrames(routes, network.interface, number));
  RETURN_IF_ERROR(RedirectFrames(routes, number, network.interface));
  return tap;
}

base::ipc::Message NetworkRequest(const SandboxNetwork& network) {
  return base::ipc::Message()
      .Set(base::ipc::kMethod, std::string(calls::kNetwork))
      .Set(calls::kName, network.name)
      .Set(calls::kMac, network.mac)
      .Set(calls::kMtu, network.mtu)
      .Set(calls::kAddresses, network.addresses)
      .Set(calls::kRoutes, network.routes)
      .Set(calls::kNeighbors, network.neighbors);
}

}  // namespace berth::crust
