// The mount that stands at a volume's target path on the host while a runtime handler has the
// volume mounted in a pod's sandboxes (src/crust/pods/placeholder.h makes it): an empty tmpfs.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {

inline constexpr std::string_view kPlaceholderType = "tmpfs";
inline constexpr std::string_view kPlaceholderSource = "berth-crust";

bool IsPlaceholder(const MountEntry& mount);

// What is mounted at a target path.
enum class AtTarget { kNothing, kPlaceholder, kOther };

// Reads the mount table. `target` may contain symlinks, and need not exist.
base::StatusOr<AtTarget> LookAtTarget(Mounter& mounter, const std::string& target);

}  // namespace berth::platform
