#include "crust/share_address.h"

#include <algorithm>

#include "base/log.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMostAddresses = 4;

bool NeedsAddress(const MountFileSystem& mount) {
  if (!mount.utility.empty() || (mount.type != "nfs" && mount.type != "nfs4")) return false;
  return std::ranges::none_of(mount.options,
                              [](const auto& option) { return option.starts_with("addr="); });
}

// The server in "HOST:/path" or "[IPv6]:/path"; "": there is none.
std::string ServerOf(const std::string& source) {
  if (source.starts_with('[')) {
    const size_t end = source.find("]:");
    return end == std::string::npos ? "" : source.substr(1, end - 1);
  }
  const size_t colon = source.find(':');
  return colon == std::string::npos ? "" : source.substr(0, colon);
}

}  // namespace

StatusOr<std::vector<std::string>> FindShareAddresses(
    const std::string& source, const MountFileSystem& mount,
    std::chrono::steady_clock::time_point deadline, const platform::LookUp& look_up) {
  if (!NeedsAddress(mount)) return std::vector<std::string>();
  const std::string server = ServerOf(source);
  if (server.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "the share {} names no server: it must be HOST:/path or [IPv6]:/path",
                 Quote(source));
  }
  StatusOr<std::vector<std::string>> found = platform::ResolveHost(server, deadline, look_up);
  RETURN_IF_ERROR_WITH(found, fmt::format("find the server of the share {}", Quote(source)));
  if (found->size() > kMostAddresses) found->resize(kMostAddresses);
  return found;
}

}  // namespace berth::crust
