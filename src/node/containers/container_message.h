// Reads the message that a container left when it ended: from terminationMessagePath, or from the
// end of its log.
#pragma once

#include <string>

#include "node/containers/cri_state.h"

namespace berth::node {

// Returns at most 4 KiB of the message file. If the container failed and left no message, and its
// terminationMessagePolicy is FallbackToLogsOnError, returns the last 2 KiB or 80 lines of its log.
// Empty: there is no message.
std::string ReadTerminationMessage(const ContainerState& container);

}  // namespace berth::node
