// The runtime that this program stands in for.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::oci {

// The file of `runtime`: a path, or a name that is looked for along PATH. Never finds this program
// itself, which may have that name there.
base::ipc::Result<std::string> FindRuntime(const std::string& runtime);

// Replaces this process by the runtime. Returns only with a failure.
base::ipc::Failure BecomeRuntime(const std::string& file, const std::vector<std::string>& argv);

// Runs it to its end, and returns its exit code as a shell does. If this process ends, the runtime
// is killed.
base::ipc::Result<int> RunRuntime(const std::string& file, const std::vector<std::string>& argv);

}  // namespace berth::oci
