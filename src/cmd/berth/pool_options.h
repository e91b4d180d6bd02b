// Adds the options of the roles that have a pool: how much of its file system volumes may take.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "api/quantity.h"

namespace berth::cmd {

// `options` has overcommit, inline_share and keep_free of block::PoolOptions. It must outlive the
// parsing.
template <typename Options>
void AddPoolOptions(CLI::App& app, Options& options) {
  app.add_option("--overcommit", options.overcommit,
                 "How much of the pool's size thin volumes may promise, as a factor")
      ->capture_default_str();
  app.add_option("--inline-share", options.inline_share,
                 "How much of what the pool may promise inline (ephemeral) volumes may have "
                 "together, as a part from 0 to 1; no quota of a namespace counts them")
      // CLI::Range takes "nan" for a number within the range.
      ->check(CLI::Validator(
          [](const std::string& text) {
            double share = -1;
            const bool valid = CLI::detail::lexical_cast(text, share) && share >= 0 && share <= 1;
            return valid ? std::string() : "'" + text + "' is not a number from 0 to 1";
          },
          "0..1"))
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--keep-free",
      [&options](const std::string& text) {
        const auto size = api::ParseBytes(text);
        if (!size.ok()) {
          throw CLI::ValidationError("--keep-free", std::string(base::Message(size.status())));
        }
        options.keep_free = *size;
      },
      "How much of the pool's file system new volumes, copies and snapshots leave free, such as "
      "1Gi (default: a fiftieth of it, at most 64Mi)");
}

}  // namespace berth::cmd
