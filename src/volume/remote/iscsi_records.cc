#include "volume/remote/iscsi_records.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::volume {
namespace {

constexpr std::string_view kDefaultPort = "3260";
// A login to a portal that is away must fail before the volume manager's caller gives up.
constexpr char kDiscoveryTimes[] =
    "discovery.sendtargets.timeo.login_timeout = 9\ndiscovery.sendtargets.reopen_max = 0\n";
// The LUNs of others must not become devices of this node, so the scan is left to the plugin.
constexpr char kNodeTimes[] =
    "node.conn[0].timeo.login_timeout = 9\nnode.session.initial_login_retry_max = 1\n"
    "node.startup = manual\nnode.session.scan = manual\n";

std::string MakeChapLines(std::string_view prefix, const ChapSecrets& given) {
  std::string lines = fmt::format("{}.authmethod = CHAP\n", prefix);
  for (const char* key : {"username", "password", "username_in", "password_in"}) {
    const std::string name = fmt::format("{}.{}", prefix, key);
    const auto entry = given.find(name);
    if (entry != given.end() && !entry->second.empty()) {
      lines += fmt::format("{} = {}\n", name, entry->second);
    }
  }
  return lines;
}

}  // namespace

std::string WithIscsiPort(std::string_view portal) {
  const bool has_port = portal.starts_with('[') ? portal.find("]:") != std::string_view::npos
                                                : portal.find(':') != std::string_view::npos;
  return has_port ? std::string(portal) : fmt::format("{}:{}", portal, kDefaultPort);
}

std::string IscsiRecordName(const std::string& portal) {
  const size_t colon = portal.rfind(':');
  std::string address = portal.substr(0, colon);
  if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
  return fmt::format("{},{}", address, portal.substr(colon + 1));
}

std::string NodeRecordPattern(const std::string& target, const std::string& portal,
                              std::string interface) {
  // An interface that is named after an IPv6 portal has brackets, which a pattern reads as a class.
  std::replace(interface.begin(), interface.end(), '[', '?');
  return fmt::format("nodes/{}/{},*/{}", target, IscsiRecordName(portal), interface);
}

std::string MakeDiscoveryLines(const ChapSecrets* secrets) {
  std::string lines = kDiscoveryTimes;
  if (secrets != nullptr) lines += MakeChapLines("discovery.sendtargets.auth", *secrets);
  return lines;
}

std::string MakeNodeLines(const ChapSecrets* secrets) {
  std::string lines = kNodeTimes;
  if (secrets != nullptr) lines += MakeChapLines("node.session.auth", *secrets);
  return lines;
}

}  // namespace berth::volume
