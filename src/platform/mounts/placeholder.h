// The mount that stands at a volume's target path on the host while a runtime handler has the
// volume mounted in a pod's sandboxes (src/crust/pods/placeholder.h makes it): an empty tmpfs.
// Pure.
#pragma once

#include <string_view>

#include "platform/mounts/mounter.h"

namespace berth::platform {

inline constexpr std::string_view kPlaceholderType = "tmpfs";
inline constexpr std::string_view kPlaceholderSource = "berth-crust";

inline bool IsPlaceholder(const MountEntry& mount) {
  return mount.fs_type == kPlaceholderType && mount.source == kPlaceholderSource &&
         mount.root == "/";
}

}  // namespace berth::platform
