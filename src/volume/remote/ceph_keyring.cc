#include "volume/remote/ceph_keyring.h"

#include <algorithm>

#include "base/base64.h"
#include "base/log.h"
#include "base/text.h"
#include "volume/remote/network_plugin.h"

namespace berth::volume {
namespace {

using base::Error;
using base::StatusCode;
using base::json::String;

constexpr std::string_view kDefaultUser = "admin";

// The value of the Secret's entry "key" or, if there is only one entry, of that one.
StatusOr<std::string> ReadKey(const Json& secret, const std::string& what) {
  const Json& data = base::json::Map(secret, {"data"});
  auto entry = data.find("key");
  if (entry == data.end() && data.size() == 1) entry = data.begin();
  if (entry == data.end() || !entry->is_string()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} needs an entry 'key' with the key of the Ceph user, or just one entry", what);
  }
  const auto decoded = base::DecodeBase64(entry->get<std::string>());
  const std::string_view key = decoded ? base::Trim(*decoded) : std::string_view();
  // A key is base64, so it must contain nothing that could begin another line of the keyring.
  const bool is_key = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '/' || c == '=';
  });
  if (is_key) return std::string(key);
  return Error(StatusCode::kFailedPrecondition, "the entry '{}' of {} is no key of Ceph's",
               entry.key(), what);
}

}  // namespace

std::string CephUserOf(const Json& source) {
  return String(source, {"user"}).empty() ? std::string(kDefaultUser) : String(source, {"user"});
}

std::vector<std::string> MonitorsOf(const Json& source) {
  std::vector<std::string> monitors;
  for (const Json& monitor : base::json::Array(source, {"monitors"})) {
    if (monitor.is_string()) monitors.push_back(monitor.get<std::string>());
  }
  return monitors;
}

// The user becomes part of a keyring's section and of a mount option.
Status CheckCephUser(std::string_view field, std::string_view user) {
  const bool right = std::all_of(user.begin(), user.end(), [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._").find(c) != std::string_view::npos;
  });
  if (right) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} {} is no name of a Ceph user", field,
               base::Quote(user));
}

Status CheckMonitors(std::string_view field, const std::vector<std::string>& monitors) {
  if (monitors.empty()) return Error(StatusCode::kInvalidArgument, "{} is empty", field);
  for (const std::string& monitor : monitors) RETURN_IF_ERROR(CheckServer(field, monitor));
  return base::OkStatus();
}

StatusOr<std::string> MakeCephKeyring(Host& host, const api::Pod& pod, const VolumeSpec& spec,
                                      const Json& source, const std::string& user) {
  const Json& reference = base::json::Map(source, {"secretRef"});
  const std::string name = String(reference, {"name"});
  if (name.empty()) return std::string();
  std::string ns = spec.pv != nullptr ? String(reference, {"namespace"}) : "";
  if (ns.empty()) ns = pod.ns();
  const std::string what = fmt::format("Secret '{}/{}'", ns, name);
  const auto secret = host.GetObject(api::kinds::kSecret, ns, name);
  if (secret.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound, "{}, which has the key of Ceph user '{}', does not exist",
                 what, user);
  }
  RETURN_IF_ERROR_WITH(secret, fmt::format("read {}", what));
  ASSIGN_OR_RETURN(const std::string key, ReadKey(*secret, what));
  return fmt::format("[client.{}]\nkey = {}\n", user, key);
}

}  // namespace berth::volume
