// Writes berth-init's messages to the container's log.
#pragma once

#include <string_view>

namespace berth::init {

// Writes "berth-init: TEXT" as one line to standard error.
void LogLine(std::string_view text);

}  // namespace berth::init
