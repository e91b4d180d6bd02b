// Finds and runs the real runtime.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::oci {

// Returns the file of `runtime`, which is a path, or a name to look for in the folders of PATH.
// Never returns this program itself, which may have that name there. kSystem: there is no such
// file.
base::ipc::Result<std::string> FindRuntime(const std::string& runtime);

// Replaces this process by the runtime. Returns only with a failure.
base::ipc::Failure BecomeRuntime(const std::string& file, const std::vector<std::string>& argv);

// Runs the runtime and waits for its end. Returns its exit code, or 128 + signal if a signal ended
// it. If this process ends, the runtime is killed.
base::ipc::Result<int> RunRuntime(const std::string& file, const std::vector<std::string>& argv);

}  // namespace berth::oci
