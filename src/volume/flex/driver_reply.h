// A Flexvolume driver's answer to a call: one JSON object, read strictly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/flex/secret_words.h"

namespace berth::volume {

// The answer to init; the defaults are those of absent members.
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

inline constexpr size_t kMaxDriverReply = 64 * 1024;  // bytes; a longer text is no reply

// Reads the reply from a driver's output: from standard output or, if that is blank, from standard
// error, because the kubelet reads both as one. If both hold text, the text on standard error is a
// log and appears only in failures; a kubelet cannot read such a reply. The names of members match
// in upper and lower case, and null means absent, as in Go.
//
// UNIMPLEMENTED: "Not supported". INTERNAL: the driver says that it failed, so nothing happened.
// UNAVAILABLE: the outcome is unknown, because this is no reply, or "Success" with a non-zero exit
// code. Errors contain the printed text, without `secrets`.
base::StatusOr<DriverReply> ReadDriverReply(std::string_view command,
                                            const platform::CommandResult& result,
                                            const SecretWords& secrets);

}  // namespace berth::volume
