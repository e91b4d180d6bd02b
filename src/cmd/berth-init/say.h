// Writes berth-init's messages to the container's log.
#pragma once

#include <string_view>

namespace berth::init {

// "berth-init: TEXT", as one line on standard error.
void LogLine(std::string_view text);

}  // namespace berth::init
