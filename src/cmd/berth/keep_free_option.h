// Adds the option of the roles that have a pool: how much of its file system stays free.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "api/quantity.h"

namespace berth::cmd {

// `value` must outlive the parsing.
inline void AddKeepFree(CLI::App& app, std::optional<int64_t>& value) {
  app.add_option_function<std::string>(
      "--keep-free",
      [&value](const std::string& text) {
        const auto size = api::ParseBytes(text);
        if (!size.ok()) {
          throw CLI::ValidationError("--keep-free", std::string(base::Message(size.status())));
        }
        value = *size;
      },
      "How much of the pool's file system new volumes, copies and snapshots leave free, such as "
      "1Gi (default: a fiftieth of it, at most 64Mi)");
}

}  // namespace berth::cmd
