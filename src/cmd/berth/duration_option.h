// Adds an option of a command that is a duration, such as "40s" or "1m30s".
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "cmd/go_flags.h"

namespace berth::cmd {

// The duration must be at least one second. `value` must outlive the parsing.
inline void AddDuration(CLI::App& app, const std::string& name, std::chrono::milliseconds& value,
                        const std::string& help) {
  app.add_option_function<std::string>(
      name,
      [&value, name](const std::string& text) {
        const auto parsed = ParseGoDuration(text);
        if (!parsed.ok()) {
          throw CLI::ValidationError(name, std::string(base::Message(parsed.status())));
        }
        if (*parsed < std::chrono::seconds(1)) {
          throw CLI::ValidationError(name, "'" + text + "' is less than a second");
        }
        value = *parsed;
      },
      help);
}

}  // namespace berth::cmd
