#include "rbd/blocklist.h"

#include <errno.h>

#include "base/json.h"
#include "base/log.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {

using base::Error;
using base::Quote;
using base::StatusCode;

base::Status AddToBlocklist(const Cluster& cluster, const std::string& address) {
  std::string text = address;
  const int result = rados_blocklist_add(cluster.handle(), text.data(), kBlocklistSeconds);
  if (result >= 0) return base::OkStatus();
  if (result == -EACCES || result == -EPERM) {
    return Error(StatusCode::kPermissionDenied,
                 "the user may not put {} on the blocklist: it needs the capability mon 'profile "
                 "rbd'",
                 Quote(address));
  }
  return RbdError(result, fmt::format("put {} on the blocklist", Quote(address)));
}

base::Status WaitForBlocklist(const Cluster& cluster) {
  const int result = rados_wait_for_latest_osdmap(cluster.handle());
  return result < 0 ? RbdError(result, "wait for the OSD map that has the blocklist")
                    : base::OkStatus();
}

base::Status RemoveFromBlocklist(const Cluster& cluster, const std::string& address) {
  const std::string command = base::json::Dump(
      base::Json{{"prefix", "osd blocklist"}, {"blocklistop", "rm"}, {"addr", address}});
  const char* commands[] = {command.c_str()};
  char* output = nullptr;
  char* text = nullptr;
  size_t output_size = 0;
  size_t text_size = 0;
  const int result = rados_mon_command(cluster.handle(), commands, 1, "", 0, &output, &output_size,
                                       &text, &text_size);
  rados_buffer_free(output);
  rados_buffer_free(text);
  // ENOENT: it is not on the list.
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  if (result == -EACCES || result == -EPERM) {
    return Error(StatusCode::kPermissionDenied,
                 "the user may not remove {} from the blocklist: it needs the capability mon "
                 "'profile rbd, allow command \"osd blocklist\"'",
                 Quote(address));
  }
  return RbdError(result, fmt::format("remove {} from the blocklist", Quote(address)));
}

}  // namespace berth::rbd
