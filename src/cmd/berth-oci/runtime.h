// The runtime that this program stands in for.
#pragma once

#include <string>
#include <vector>

#include "base/ipc/result.h"

namespace berth::oci {

// The file of `runtime`: a path, or a name that is looked for along PATH. Never this program
// itself, which may bear that name there.
base::ipc::Result<std::string> FindRuntime(const std::string& runtime);

// Replaces this process by the runtime. Returns only with a failure.
base::ipc::Failure BecomeRuntime(const std::string& file, const std::vector<std::string>& argv);

// Runs it to its end, and gives its exit code as a shell does. It is killed with this process.
base::ipc::Result<int> RunRuntime(const std::string& file, const std::vector<std::string>& argv);

}  // namespace berth::oci
