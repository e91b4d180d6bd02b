// What a Flexvolume driver answers to a call: one JSON object, read strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/flex/secret_words.h"

namespace berth::volume {

// What init says; the defaults are those of absent members.
struct DriverCapabilities {
  bool attach = true;
  bool selinux_relabel = true;
  bool supports_metrics = false;
  bool fs_group = true;
  bool requires_fs_resize = true;
};

struct DriverReply {
  std::string message;
  std::string device;       // of attach, waitforattach
  std::string volume_name;  // of getvolumename
  bool attached = false;    // of isattached
  DriverCapabilities capabilities;
  std::optional<int64_t> volume_new_size;  // of expandvolume, in bytes
};

inline constexpr size_t kMaxDriverReply = 64 * 1024;  // bytes; a longer one is none

// The reply in what a driver left behind: on standard output, and if that is blank on standard
// error, which the kubelet reads as one with the other. What stands on standard error beside a
// reply is a log, and part of failures alone; a kubelet cannot read such a reply. Members are found
// whatever their case, null is absence, as in Go.
//
// UNIMPLEMENTED: "Not supported". INTERNAL: the driver says that it failed, so that nothing
// happened. UNAVAILABLE: what it did is unknown, since this is no reply, or "Success" with an exit
// code that says otherwise. Failures show what was printed, without `secrets`.
base::StatusOr<DriverReply> ReadDriverReply(std::string_view command,
                                            const platform::CommandResult& result,
                                            const SecretWords& secrets);

}  // namespace berth::volume
