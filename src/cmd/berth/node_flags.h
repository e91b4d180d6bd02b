// The flags that `berth up` and `berth node` share.
#pragma once

#include <CLI/CLI.hpp>

#include "standalone/local_node.h"

namespace berth::cmd {

// `options` must outlive the parsing.
void AddNodeFlags(CLI::App& app, standalone::LocalNodeOptions& options);

}  // namespace berth::cmd
