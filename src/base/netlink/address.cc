#include "base/netlink/address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <charconv>

namespace berth::base::netlink {
namespace {

constexpr size_t kMacBytes = 6;
constexpr size_t kMacText = kMacBytes * 3 - 1;
constexpr int kBitsPerByte = 8;

}  // namespace

std::optional<Address> ParseAddress(const std::string& text) {
  // inet_pton reads up to a zero.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  const int family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  Address address{.family = family,
                  .bytes = std::string(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr), 0)};
  if (inet_pton(family, text.c_str(), address.bytes.data()) != 1) return std::nullopt;
  address.prefix = static_cast<int>(address.bytes.size()) * kBitsPerByte;
  return address;
}

std::optional<Address> ParsePrefix(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  auto address = ParseAddress(text.substr(0, slash));
  if (!address.has_value()) return std::nullopt;
  int prefix = -1;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + slash + 1, end, prefix);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  if (prefix < 0 || prefix > address->prefix) return std::nullopt;
  address->prefix = prefix;
  return address;
}

std::string FormatAddress(std::string_view bytes) {
  if (bytes.size() != sizeof(in_addr) && bytes.size() != sizeof(in6_addr)) return "";
  char text[INET6_ADDRSTRLEN] = {};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  return inet_ntop(family, bytes.data(), text, sizeof text) != nullptr ? text : "";
}

std::optional<std::string> ParseMac(std::string_view text) {
  if (text.size() != kMacText) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < kMacBytes; ++i) {
    const char* at = text.data() + i * 3;
    unsigned byte = 0;
    const auto read = std::from_chars(at, at + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != at + 2) return std::nullopt;
    if (i + 1 < kMacBytes && at[2] != ':') return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string FormatMac(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace berth::base::netlink
