// Logging to standard error: LOG_INFO("staged volume {}", base::Quote(id)).
//
// Every string from outside is quoted (Quote), so that it cannot forge a line. Secrets are never
// logged, not even quoted. Thread-safe.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

#define LOG_DEBUG(...) ::spdlog::debug(__VA_ARGS__)
#define LOG_INFO(...) ::spdlog::info(__VA_ARGS__)
#define LOG_WARNING(...) ::spdlog::warn(__VA_ARGS__)
#define LOG_ERROR(...) ::spdlog::error(__VA_ARGS__)

namespace berth::base {

// Sends the process's log to standard error. Each line has the time, the level and `program` before
// the message. Verbosity 0 logs from the level info on, 1 and more from debug on. Call it before
// threads start, and again for another name or verbosity. Before the first call the log goes to
// standard output.
void InitLogging(std::string_view program, int verbosity);

// Returns `s` in single quotes, cut at 256 bytes (then with "…" before the last quote). Control
// characters, single quotes and backslashes are escaped.
std::string Quote(std::string_view s);

}  // namespace berth::base
