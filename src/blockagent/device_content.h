// Prepares the file system on a mapped device for its mount, and grows it with its image.
//
//   blank ─▶ about_to_format records a new UUID ─▶ mkfs with that UUID ─▶ check
//   interrupted mkfs with that UUID, also of another node ─▶ mkfs again with it ─▶ check
//   the file system of the request ─▶ check; none if read-only
//   anything else ─▶ refused, and not changed
//
// The check is quick enough for every mount. After it the file system is grown to its device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "block/backend.h"
#include "platform/processes/exec.h"

namespace berth::blockagent {

struct ContentRequest {
  std::string device;
  int64_t device_bytes = 0;
  std::string fs_type;  // as requested; empty: the type on the device, or ext4
  bool read_only = false;
  std::string formatting_uuid;  // of an interrupted mkfs, as recorded or noted; empty: none
  // Called before the first mkfs, to record the UUID of the new file system. If it fails, mkfs does
  // not run.
  std::function<base::Status(const std::string& uuid)> about_to_format;
};

// Prepares the file system on a device for its mount, and gives its type. The device must not be
// mounted. A type that the platform does not know is neither made, checked nor grown.
// FAILED_PRECONDITION: something else is on the device, or request.read_only is set and mkfs would
// have to run.
base::StatusOr<std::string> PrepareContent(platform::Exec& exec, const ContentRequest& request);

struct GrowRequest {
  std::string device;
  int64_t device_bytes = 0;
  std::string mount_point;  // empty: it is not mounted
};

// Grows a file system to its device's size if it is noticeably smaller. Does nothing for types that
// the platform does not know.
base::Status GrowContent(platform::Exec& exec, const GrowRequest& request,
                         std::string_view fs_type);

}  // namespace berth::blockagent
