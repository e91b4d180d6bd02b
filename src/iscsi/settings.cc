#include "iscsi/settings.h"

#include <algorithm>
#include <random>

#include "iscsi/initiator_name.h"

namespace berth::iscsi {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// libiscsi keeps each of them in 255 bytes. CHAP secrets have at most 128 here, as open-iscsi's.
constexpr size_t kLongestText = 223;  // of an iSCSI name (RFC 7143, 4.2.7)
constexpr size_t kLongestInitiator = kLongestText - kSecondName.size();
constexpr size_t kLongestPortal = 255;
constexpr size_t kMostPortals = 16;
constexpr int64_t kMostLun = 0x3fff;

bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

Status CheckText(std::string_view member, std::string_view text, size_t longest, bool needed) {
  if (needed && text.empty()) {
    return Error(StatusCode::kInvalidArgument, "'{}' is missing", member);
  }
  if (text.size() > longest || !IsPlain(text)) {
    return Error(StatusCode::kInvalidArgument,
                 "'{}' has more than {} bytes, or a character that is no plain one", member,
                 longest);
  }
  return base::OkStatus();
}

// "HOST:PORT" with a port of 1 to 65535, or only "HOST". libiscsi takes what atoi makes of it.
Status CheckPortal(std::string_view portal) {
  RETURN_IF_ERROR(CheckText("cluster.portals", portal, kLongestPortal, true));
  const size_t bracket = portal.rfind(']');
  const size_t colon = portal.rfind(':');
  if (portal.find(',') != std::string_view::npos) {
    return Error(StatusCode::kInvalidArgument, "portal '{}' has a ','", portal);
  }
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && bracket > colon)) {
    return base::OkStatus();
  }
  const std::string port(portal.substr(colon + 1));
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  if (digits && std::stoi(port) >= 1 && std::stoi(port) <= 65535 && colon > 0) {
    return base::OkStatus();
  }
  return Error(StatusCode::kInvalidArgument, "portal '{}' is not of the form HOST:PORT", portal);
}

}  // namespace

uint64_t MakeIsid() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) & 0xffffffffff;
}

StatusOr<Settings> ReadSettings(const Json& request) {
  Settings settings{.login = {},
                    .owner = KeyOwner(base::json::String(request, {"cluster", "owner"})),
                    .node = base::json::String(request, {"node"})};
  LoginOptions& login = settings.login;
  login.portals = base::json::Strings(base::json::Array(request, {"cluster", "portals"}));
  login.target = base::json::String(request, {"cluster", "target"});
  login.initiator = base::json::String(request, {"cluster", "initiator"});
  login.chap_user = base::json::String(request, {"cluster", "chapUser"});
  login.chap_password = base::json::String(request, {"cluster", "chapPassword"});
  login.isid = MakeIsid();
  RETURN_IF_ERROR(
      CheckText("node", settings.node, kLongestInitiator - kInitiatorPrefix.size(), true));
  RETURN_IF_ERROR(CheckText("cluster.owner", settings.owner.text(), kLongestText, true));
  if (login.portals.empty() || login.portals.size() > kMostPortals) {
    return Error(StatusCode::kInvalidArgument, "'cluster.portals' has not 1 to {} portals",
                 kMostPortals);
  }
  for (const std::string& portal : login.portals) RETURN_IF_ERROR(CheckPortal(portal));
  RETURN_IF_ERROR(CheckText("cluster.target", login.target, kLongestText, true));
  if (login.initiator.empty())
    login.initiator = fmt::format("{}{}", kInitiatorPrefix, settings.node);
  RETURN_IF_ERROR(CheckText("cluster.initiator", login.initiator, kLongestInitiator, true));
  RETURN_IF_ERROR(CheckText("cluster.chapUser", login.chap_user, kLongestText, false));
  RETURN_IF_ERROR(CheckText("cluster.chapPassword", login.chap_password, 128, false));
  if (login.chap_user.empty() != login.chap_password.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "'cluster.chapUser' and 'cluster.chapPassword' belong together");
  }
  return settings;
}

StatusOr<uint16_t> ReadLun(const Json& request) {
  const Json* lun = base::json::Find(request, {"lun"});
  if (lun == nullptr || !lun->is_number_integer() || lun->get<int64_t>() < 0 ||
      lun->get<int64_t>() > kMostLun) {
    return Error(StatusCode::kInvalidArgument, "'lun' is not a number from 0 to {}", kMostLun);
  }
  return static_cast<uint16_t>(lun->get<int64_t>());
}

}  // namespace berth::iscsi
