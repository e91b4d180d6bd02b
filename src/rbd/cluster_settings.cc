#include "rbd/cluster_settings.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr size_t kLongestMonitor = 255;
constexpr size_t kLongestKey = 256;
constexpr size_t kLongestObjectName = 253;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

template <typename Predicate>
bool All(std::string_view text, Predicate predicate) {
  return std::all_of(text.begin(), text.end(), predicate);
}

bool IsPrintable(std::string_view text) {
  return All(text, [](char c) { return c > ' ' && c < 0x7f; });
}

// The text of a member; INVALID_ARGUMENT: it is no string, too long, or has blanks or control
// characters.
base::StatusOr<std::string> ReadName(const base::Json& cluster, const char* member, bool required) {
  const base::Json* value = base::json::Find(cluster, {member});
  if (value == nullptr || value->is_null()) {
    if (!required) return std::string();
    return Error(StatusCode::kInvalidArgument, "cluster.{} is missing", member);
  }
  if (!value->is_string()) {
    return Error(StatusCode::kInvalidArgument, "cluster.{} is not a string", member);
  }
  auto text = value->get<std::string>();
  if (text.empty() && required) {
    return Error(StatusCode::kInvalidArgument, "cluster.{} is empty", member);
  }
  if (text.size() > kLongestName || !IsPrintable(text) || text.find('/') != std::string::npos) {
    return Error(StatusCode::kInvalidArgument,
                 "cluster.{} is longer than {} bytes, or has a blank, a slash or a character that "
                 "is not ASCII",
                 member, kLongestName);
  }
  return text;
}

// A comma separates monitors for librados, so it is allowed in brackets only, where it separates
// the addresses of one monitor.
bool IsMonitor(std::string_view text) {
  if (text.empty() || text.size() > kLongestMonitor) return false;
  if (!All(text, [](char c) {
        return IsLetterOrDigit(c) || std::string_view(".:-_[],").find(c) != std::string_view::npos;
      })) {
    return false;
  }
  return text.find(',') == std::string_view::npos || (text.front() == '[' && text.back() == ']');
}

base::StatusOr<std::vector<std::string>> ReadMonitors(const base::Json& cluster) {
  const base::Json& list = base::json::Array(cluster, {"monitors"});
  if (list.empty() || list.size() > kMostMonitors) {
    return Error(StatusCode::kInvalidArgument, "cluster.monitors has {} members, not 1 to {}",
                 list.size(), kMostMonitors);
  }
  std::vector<std::string> monitors;
  for (const base::Json& item : list) {
    if (!item.is_string() || !IsMonitor(item.get_ref<const std::string&>())) {
      return Error(StatusCode::kInvalidArgument, "cluster.monitors has {}, which is not HOST:PORT",
                   Quote(base::json::Dump(item)));
    }
    monitors.push_back(item.get<std::string>());
  }
  return monitors;
}

base::StatusOr<std::string> ReadKey(const base::Json& cluster) {
  const base::Json* value = base::json::Find(cluster, {"key"});
  if (value == nullptr || !value->is_string() || value->get_ref<const std::string&>().empty()) {
    return Error(StatusCode::kInvalidArgument, "cluster.key is missing");
  }
  auto key = value->get<std::string>();
  // A Secret made by hand often ends with a line end.
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) {
    key.pop_back();
  }
  if (key.empty() || key.size() > kLongestKey ||
      !All(key, [](char c) { return IsLetterOrDigit(c) || c == '+' || c == '/' || c == '='; })) {
    return Error(StatusCode::kInvalidArgument,
                 "cluster.key is not a key as `ceph auth get-key` prints it");
  }
  return key;
}

bool IsObjectName(std::string_view name, bool capitals) {
  if (name.empty() || name.size() > kLongestObjectName || !IsLetterOrDigit(name.front())) {
    return false;
  }
  return All(name, [capitals](char c) {
    return (IsLetterOrDigit(c) && (capitals || !(c >= 'A' && c <= 'Z'))) || c == '-' || c == '.';
  });
}

}  // namespace

base::StatusOr<ClusterSettings> ParseClusterSettings(const base::Json& cluster) {
  if (!cluster.is_object()) return Error(StatusCode::kInvalidArgument, "cluster is not an object");
  ClusterSettings settings;
  ASSIGN_OR_RETURN(settings.monitors, ReadMonitors(cluster));
  ASSIGN_OR_RETURN(settings.pool, ReadName(cluster, "pool", true));
  ASSIGN_OR_RETURN(settings.pool_namespace, ReadName(cluster, "namespace", false));
  ASSIGN_OR_RETURN(settings.user, ReadName(cluster, "user", true));
  if (settings.user.starts_with("client.")) {
    return Error(StatusCode::kInvalidArgument, "cluster.user is {}: leave out 'client.'",
                 Quote(settings.user));
  }
  ASSIGN_OR_RETURN(settings.key, ReadKey(cluster));
  return settings;
}

base::Status CheckImageName(std::string_view name) {
  if (IsObjectName(name, /*capitals=*/false)) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} is not a name of an image", Quote(name));
}

base::Status CheckNodeName(std::string_view node) {
  if (IsObjectName(node, /*capitals=*/true)) return base::OkStatus();
  return Error(StatusCode::kInvalidArgument, "{} is not a name of a node", Quote(node));
}

}  // namespace berth::rbd
