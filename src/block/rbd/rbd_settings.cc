#include "block/rbd/rbd_settings.h"

#include <algorithm>

#include "base/base64.h"
#include "base/log.h"

namespace berth::block {

using base::Error;
using base::Json;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
using base::json::String;

namespace {

constexpr size_t kMostMonitors = 32;
constexpr size_t kLongestName = 253;
// A cephx key: type (2 bytes), time (8), length (2), and the AES key of 16 bytes.
constexpr size_t kKeyHeader = 12;
constexpr size_t kShortestKey = kKeyHeader + 16;
constexpr size_t kLongestKey = 1024;

// Whether the text can stand in the options of the kernel's client and of librados, where a comma,
// a blank or '=' would begin something else.
bool IsPlain(std::string_view text) {
  return text.size() <= kLongestName && std::ranges::all_of(text, [](unsigned char c) {
           return c > ' ' && c < 0x7f && c != ',' && c != '=' && c != '/' && c != '@' && c != '\\';
         });
}

bool IsHostAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || !IsPlain(text)) return false;
  const std::string_view port = text.substr(colon + 1);
  const std::string_view host = text.substr(0, colon);
  if (host.find(':') != std::string_view::npos && (host.front() != '[' || host.back() != ']')) {
    return false;
  }
  return !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

StatusOr<std::string> ReadName(const Json& settings, std::string_view member,
                               std::string_view fallback, bool required) {
  std::string name = String(settings, {member}, fallback);
  if (name.empty() && required) {
    return Error(StatusCode::kInvalidArgument, "rbd.{} is missing", member);
  }
  if (!IsPlain(name)) {
    return Error(StatusCode::kInvalidArgument, "rbd.{} is not a plain name: {}", member,
                 Quote(name));
  }
  return name;
}

}  // namespace

std::string RbdSettings::Store() const {
  std::vector<std::string> sorted = monitors;
  std::ranges::sort(sorted);
  return fmt::format("rbd:{}/{}/{}", fmt::join(sorted, ","), pool, ns);
}

StatusOr<RbdSettings> ReadRbdSettings(const Json& settings) {
  RbdSettings read;
  const Json& monitors = base::json::Array(settings, {"monitors"});
  if (monitors.empty()) return Error(StatusCode::kInvalidArgument, "rbd.monitors is missing");
  if (monitors.size() > kMostMonitors) {
    return Error(StatusCode::kInvalidArgument, "rbd.monitors has {} members, more than {}",
                 monitors.size(), kMostMonitors);
  }
  for (size_t i = 0; i < monitors.size(); ++i) {
    const std::string monitor =
        monitors[i].is_string() ? monitors[i].get<std::string>() : std::string();
    if (!IsHostAndPort(monitor)) {
      return Error(StatusCode::kInvalidArgument, "rbd.monitors[{}] is not HOST:PORT: {}", i,
                   Quote(monitor));
    }
    read.monitors.push_back(monitor);
  }
  ASSIGN_OR_RETURN(read.pool, ReadName(settings, "pool", "", /*required=*/true));
  ASSIGN_OR_RETURN(read.ns, ReadName(settings, "namespace", "", /*required=*/false));
  ASSIGN_OR_RETURN(read.user, ReadName(settings, "user", "admin", /*required=*/true));
  read.secret_name = String(settings, {"secretRef", "name"});
  read.secret_namespace = String(settings, {"secretRef", "namespace"});
  for (const auto& [member, value] :
       {std::pair("name", &read.secret_name), std::pair("namespace", &read.secret_namespace)}) {
    if (value->empty()) {
      return Error(StatusCode::kInvalidArgument, "rbd.secretRef.{} is missing", member);
    }
  }
  const std::string access = String(settings, {"access"}, "Auto");
  if (access == "Kernel") {
    read.access = RbdAccess::kKernel;
  } else if (access == "Proxy") {
    read.access = RbdAccess::kProxy;
  } else if (access != "Auto") {
    return Error(StatusCode::kInvalidArgument, "rbd.access is none of Auto, Kernel, Proxy: {}",
                 Quote(access));
  }
  return read;
}

StatusOr<std::string> FindCephKey(const std::map<std::string, std::string>& values,
                                  std::string_view secret) {
  auto found = values.find("key");
  if (found == values.end()) found = values.find("userKey");
  if (found == values.end()) {
    return Error(StatusCode::kFailedPrecondition,
                 "secret {} has neither 'key' nor 'userKey': put there what 'ceph auth get-key' "
                 "prints",
                 Quote(secret));
  }
  const std::string& value = found->second;
  const size_t begin = value.find_first_not_of(" \t\r\n");
  const size_t end = value.find_last_not_of(" \t\r\n");
  std::string key = begin == std::string::npos ? "" : value.substr(begin, end - begin + 1);
  const auto decoded = key.size() > kLongestKey || key.find_first_of(" \t\r\n") != std::string::npos
                           ? std::nullopt
                           : base::DecodeBase64(key);
  // The type of the key, a little-endian number, is 1 for AES.
  if (!decoded.has_value() || decoded->size() < kShortestKey || (*decoded)[0] != 1 ||
      (*decoded)[1] != 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "secret {}: '{}' is not a key of Ceph: put there what 'ceph auth get-key' prints",
                 Quote(secret), found->first);
  }
  return key;
}

}  // namespace berth::block
