// The network of a sandbox, as CNI plugins made it in a network namespace, for the sandbox's guest.
//
// The guest's card takes the place of the namespace's interface: it has that interface's hardware
// address, and all frames are passed on both ways by rules in the kernel (ADR 49):
//
//   network ── eth0 ◀──redirected──▶ berth-tap ── QEMU ── the guest's eth0
//
// So the namespace's own kernel sees none of them, and the guest has the addresses, routes and
// fixed neighbors that the interface has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ipc/message.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::crust {

inline constexpr const char* kTapName = "berth-tap";
// A network may have so many addresses, routes and neighbors each.
inline constexpr size_t kMostNetworkEntries = 256;

// The texts are those of the call guest.network (base/ipc/guest_call.h).
struct SandboxNetwork {
  int interface = 0;  // the number of the interface in the namespace
  std::string name;
  std::string mac;
  int64_t mtu = 0;
  std::vector<std::string> addresses, routes, neighbors;
};

// The objects that the kernel lists in a namespace. Addresses are bytes, as in a packet.
struct NetworkList {
  struct Link {
    int number = 0;
    std::string name;
    bool loopback = false, up = false, ethernet = false;
    std::string mac;
    int64_t mtu = 0;
  };
  struct Address {
    int link = 0;
    std::string bytes;
    int prefix = 0;
  };
  struct Route {
    int link = 0;  // 0: it has several ways, or none
    int family = 0;
    std::string destination;  // "": all
    int prefix = 0;
    std::string gateway;  // "": on the link
  };
  struct Neighbor {
    int link = 0;
    std::string bytes, mac;
  };
  std::vector<Link> links;
  std::vector<Address> addresses;
  std::vector<Route> routes;
  std::vector<Neighbor> neighbors;
};

// Picks what a guest gets; nullopt: there is no interface but the loopback, or none is up.
// UNIMPLEMENTED: the guest cannot have such a network, and why. Pure.
base::StatusOr<std::optional<SandboxNetwork>> DescribeNetwork(const NetworkList& list);

// Reads the network of the namespace at `path` (/proc/<pid>/ns/net, /run/netns/...), also while a
// guest uses it. INVALID_ARGUMENT: it is the host's own.
base::StatusOr<std::optional<SandboxNetwork>> ReadSandboxNetwork(const std::string& path);

// Makes the tap in the namespace, in place of one that an earlier process left, and the rules that
// pass the frames on. Returns the tap for QEMU. It ends with its last descriptor, and the rules
// then drop the frames.
base::StatusOr<base::UniqueFd> ConnectTap(const std::string& path, const SandboxNetwork& network);

// The request by which the guest takes the network over. It may be repeated.
base::ipc::Message NetworkRequest(const SandboxNetwork& network);

}  // namespace berth::crust
