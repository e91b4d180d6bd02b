// Looks whether a sandbox is over, though nobody said so: its container's bundle is gone, or no
// volume was ever put into it and the node has finished with its pod. A runtime that is killed, or
// that deletes a sandbox while no handler runs, leaves one like that.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "crust/sandbox_table.h"

namespace berth::crust {

bool IsFolder(const std::string& path);

// How long until the next look at the sandbox; none: it is over, since two looks in a row did not
// find it. The caller holds the entry, which remembers the last look. A sandbox is looked at soon
// after it was taken up, and less and less often later, up to once in `look_every`. `run_folder`
// holds the pods' plans (base/ipc/crust_call.h).
std::optional<std::chrono::milliseconds> TimeToNextLook(SandboxTable::Entry& entry,
                                                        const std::string& run_folder,
                                                        std::chrono::milliseconds look_every);

}  // namespace berth::crust
