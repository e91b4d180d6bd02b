#include "iscsi/portal.h"

namespace berth::iscsi {

using base::StatusOr;
using Addresses = std::vector<std::string>;

namespace {

constexpr size_t kMostAddresses = 4;

}  // namespace

StatusOr<Addresses> ResolvePortal(const std::string& portal,
                                  std::chrono::steady_clock::time_point deadline,
                                  const platform::LookUp& look_up) {
  // Brackets mean an IPv6 address.
  if (portal.starts_with('[')) return Addresses{portal};
  const size_t colon = portal.rfind(':');
  const std::string host = portal.substr(0, colon);
  if (platform::IsIpAddress(host)) return Addresses{portal};
  const std::string port = colon == std::string::npos ? "" : portal.substr(colon);
  ASSIGN_OR_RETURN(Addresses found, platform::ResolveHost(host, deadline, look_up));
  if (found.size() > kMostAddresses) found.resize(kMostAddresses);
  for (std::string& address : found) {
    address = (address.find(':') == std::string::npos ? address : "[" + address + "]") + port;
  }
  return found;
}

}  // namespace berth::iscsi
