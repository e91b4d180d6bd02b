#include "block/iscsi/iscsi_settings.h"

#include <algorithm>
#include <set>

#include "base/log.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
using base::json::String;

namespace {

constexpr size_t kMostPortals = 16;
constexpr size_t kMostLuns = 1024;
constexpr size_t kLongestIscsiName = 223;  // of an iSCSI name (RFC 7143, 4.2.7)
// berth-iscsi makes a second name of it by two characters more (src/iscsi/initiator_name.h).
constexpr size_t kLongestInitiator = kLongestIscsiName - 2;
constexpr size_t kLongestIdentity = 512;
constexpr size_t kLongestPassword = 128;

bool IsIscsiText(std::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

bool IsPortal(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (!IsIscsiText(text, 253) || colon == std::string_view::npos || colon == 0) return false;
  const std::string_view port = text.substr(colon + 1);
  return text.find(',') == std::string_view::npos && !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

StatusOr<std::vector<std::string>> ReadPortals(const Json& settings) {
  const Json& portals = base::json::Array(settings, {"portals"});
  if (portals.empty() || portals.size() > kMostPortals) {
    return Error(StatusCode::kInvalidArgument, "iscsi.portals has not 1 to {} members",
                 kMostPortals);
  }
  std::vector<std::string> read;
  for (const Json& portal : portals) {
    read.push_back(portal.is_string() ? portal.get<std::string>() : std::string());
    if (IsPortal(read.back())) continue;
    return Error(StatusCode::kInvalidArgument, "iscsi.portals[{}] is not HOST:PORT: {}",
                 read.size() - 1, Quote(read.back()));
  }
  return read;
}

StatusOr<std::vector<std::string>> ReadAllowed(const Json& settings) {
  const Json& allowed = base::json::Array(settings, {"luns", "allow"});
  if (allowed.empty() || allowed.size() > kMostLuns) {
    return Error(StatusCode::kInvalidArgument,
                 "iscsi.luns.allow has not 1 to {} members: list the identities of the LUNs that "
                 "Berth may use, as 'berth-iscsi call' shows them",
                 kMostLuns);
  }
  std::vector<std::string> read;
  std::set<std::string> seen;
  for (const Json& identity : allowed) {
    read.push_back(identity.is_string() ? identity.get<std::string>() : std::string());
    // An identity has blanks where the target's vendor or product name has.
    const bool fits = !read.back().empty() && read.back().size() <= kLongestIdentity &&
                      std::ranges::all_of(read.back(), [](unsigned char c) { return c >= ' '; });
    if (fits && seen.insert(read.back()).second) continue;
    return Error(StatusCode::kInvalidArgument,
                 "iscsi.luns.allow[{}] is empty, too long, or there twice: {}", read.size() - 1,
                 Quote(read.back()));
  }
  return read;
}

}  // namespace

StatusOr<IscsiSettings> ReadIscsiSettings(const Json& settings) {
  IscsiSettings read;
  ASSIGN_OR_RETURN(read.portals, ReadPortals(settings));
  read.target = String(settings, {"target"});
  if (!IsIscsiText(read.target, kLongestIscsiName)) {
    return Error(StatusCode::kInvalidArgument, "iscsi.target is not an iSCSI name: {}",
                 Quote(read.target));
  }
  read.initiator = String(settings, {"initiator"});
  if (!read.initiator.empty() && !IsIscsiText(read.initiator, kLongestInitiator)) {
    return Error(StatusCode::kInvalidArgument, "iscsi.initiator is not an iSCSI name: {}",
                 Quote(read.initiator));
  }
  ASSIGN_OR_RETURN(read.allowed, ReadAllowed(settings));
  const std::string reclaim = String(settings, {"luns", "reclaim"}, "Wipe");
  if (reclaim != "Wipe" && reclaim != "Keep") {
    return Error(StatusCode::kInvalidArgument, "iscsi.luns.reclaim is neither Wipe nor Keep: {}",
                 Quote(reclaim));
  }
  read.reclaim = reclaim == "Wipe" ? LunReclaim::kWipe : LunReclaim::kKeep;
  read.secret_name = String(settings, {"chapSecretRef", "name"});
  read.secret_namespace = String(settings, {"chapSecretRef", "namespace"});
  if (read.secret_name.empty() != read.secret_namespace.empty()) {
    return Error(StatusCode::kInvalidArgument, "iscsi.chapSecretRef.{} is missing",
                 read.secret_name.empty() ? "name" : "namespace");
  }
  const std::string access = String(settings, {"access"}, "Auto");
  if (access == "Kernel") {
    return Error(StatusCode::kUnimplemented,
                 "iscsi.access Kernel is not there yet, because a fence needs a reservation that "
                 "the writing session itself has registered: use Proxy or Auto");
  }
  if (access != "Auto" && access != "Proxy") {
    return Error(StatusCode::kInvalidArgument, "iscsi.access is none of Auto, Kernel, Proxy: {}",
                 Quote(access));
  }
  return read;
}

StatusOr<ChapSecret> FindChapSecret(const std::map<std::string, std::string>& values,
                                    std::string_view secret) {
  ChapSecret chap;
  for (const auto& [member, value] :
       {std::pair("username", &chap.user), std::pair("password", &chap.password)}) {
    auto found = values.find(std::string("node.session.auth.") + member);
    if (found == values.end()) found = values.find(member);
    if (found == values.end()) {
      return Error(StatusCode::kFailedPrecondition,
                   "secret {} has neither 'node.session.auth.{}' nor '{}'", Quote(secret), member,
                   member);
    }
    std::string_view text = found->second;
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    if (!IsIscsiText(
            text, member == std::string_view("username") ? kLongestIscsiName : kLongestPassword)) {
      return Error(StatusCode::kFailedPrecondition,
                   "secret {}: '{}' is empty, too long, or has a character that CHAP does not take",
                   Quote(secret), found->first);
    }
    *value = text;
  }
  return chap;
}

}  // namespace berth::block
