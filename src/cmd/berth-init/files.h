// Small files, for programs without absl: src/platform/files/durable_file.h has the same for the
// others.
#pragma once

#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::init {

// Reads the whole file, which may have at most 64 MiB.
base::ipc::Result<std::string> ReadWhole(const std::string& path);

// Replaces `folder`/`name` whole, mode 0644: written to `folder`/`temp`, synced, renamed, and the
// folder synced.
base::ipc::Failure WriteAtomically(const std::string& folder, const std::string& name,
                                   const std::string& temp, std::string_view content);

}  // namespace berth::init
