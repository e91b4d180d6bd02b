// Addresses of a network as text: "10.1.2.3", "10.1.2.0/24", "fd00::1", "02:00:00:00:00:01".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth::base::netlink {

struct Address {
  int family = 0;     // AF_INET or AF_INET6
  std::string bytes;  // 4 or 16, as in a packet
  int prefix = 0;     // the length of the network's part; without "/": all of it
};

// Accepts nothing but the whole text of one address. nullopt: it is none.
std::optional<Address> ParseAddress(const std::string& text);  // without "/"
std::optional<Address> ParsePrefix(const std::string& text);   // with "/"
// `bytes` has 4 or 16 bytes, else "" is returned.
std::string FormatAddress(std::string_view bytes);

// The six bytes of an Ethernet address.
std::optional<std::string> ParseMac(std::string_view text);
std::string FormatMac(std::string_view bytes);

}  // namespace berth::base::netlink
