// Finds out whether a sandbox has ended although no call said so: its container's bundle is gone,
// or it never had a volume and the node has finished with its pod. This happens if a runtime is
// killed, or deletes a sandbox while no handler runs.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "crust/sandbox_table.h"

namespace berth::crust {

bool IsFolder(const std::string& path);

// How long to wait until the next look at the sandbox; none: it has ended, because two looks in a
// row did not find it. The caller holds the entry, which remembers the last look. The first look
// comes soon after the handler began to watch the sandbox; later looks are less and less frequent,
// up to once in `look_every`. `run_folder` holds the pods' plans (base/ipc/crust_call.h).
std::optional<std::chrono::milliseconds> TimeToNextLook(SandboxTable::Entry& entry,
                                                        const std::string& run_folder,
                                                        std::chrono::milliseconds look_every);

}  // namespace berth::crust
