// The file that tells berth-oci which volumes of a pod are deferred (base/ipc/crust_call.h). The
// node agent writes it for its pods, and the handler for pods whose volumes it knows
// (pod_volumes.h).
#pragma once

#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "platform/mounts/mount_paths.h"

namespace berth::crust {

// Returns the target paths of the pod's deferred volumes. NOT_FOUND: the pod has no plan.
// FAILED_PRECONDITION: the file is no plan.
base::StatusOr<std::vector<platform::TargetPath>> ReadPlan(const std::string& run_folder,
                                                           const api::PodUid& pod);

// Makes the pod's plan name these target paths. Without target paths, the file is removed.
// RESOURCE_EXHAUSTED: the paths are too long together.
base::Status WritePlan(const std::string& run_folder, const api::PodUid& pod,
                       const std::vector<platform::TargetPath>& targets);

}  // namespace berth::crust
