// What a container left to say when it ended: terminationMessagePath, or the end of its log.
#pragma once

#include <string>

#include "node/containers/cri_state.h"

namespace berth::node {

// At most 4 KiB of the message file; with terminationMessagePolicy FallbackToLogsOnError, of a
// container that failed and left none, the last 2 KiB or 80 lines of its log. Empty: nothing.
std::string TerminationMessage(const ContainerState& container);

}  // namespace berth::node
