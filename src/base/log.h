// Logging to standard error: LOG_INFO("staged volume {}", base::Quote(id)).
//
// Every string from outside is quoted (Quote), so that it cannot forge a line; secrets are never
// logged, not even quoted.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARNING(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

namespace berth::base {

// Sends the process's log to standard error. `program` leads each line; verbosity 0 is info, 1 and
// more debug. Call once, before threads start.
void InitLogging(std::string_view program, int verbosity);

// `s` in single quotes, with control characters, quotes and backslashes escaped, cut at 256 bytes.
std::string Quote(std::string_view s);

}  // namespace berth::base
