// Reads and writes small files, without absl. src/platform/files/durable_file.h does the same for
// programs with absl.
#pragma once

#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::init {

// Reads the whole file, which may have at most 64 MiB.
base::ipc::Result<std::string> ReadWhole(const std::string& path);

// Replaces the file `folder`/`name`, with mode 0644: writes `folder`/`temp`, syncs and renames it,
// and syncs the folder.
base::ipc::Failure WriteAtomically(const std::string& folder, const std::string& name,
                                   const std::string& temp, std::string_view content);

}  // namespace berth::init
