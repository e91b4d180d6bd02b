// The conditions in the status of a StorageCluster. Several controllers of the operator write them,
// each its own type.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/block_kinds.h"
#include "base/clock.h"

namespace berth::controllers::blockoperator {

// The phase of a cluster whose back end answers, and the condition that is True then.
inline constexpr char kReady[] = "Ready";

// The message of the condition of this type if its status is True; else "".
std::string ReadClusterCondition(const api::StorageCluster& cluster, std::string_view type);

struct ClusterCondition {
  std::string type;
  bool is_true = false;
  std::string reason;
  std::string message;
};

// A condition that is True, with its type as the reason, while `message` says what is wrong, and
// else False with the reason `none`.
ClusterCondition TroubleCondition(std::string_view type, const std::string& message,
                                  std::string_view none);

// Returns status.conditions of the cluster with this condition in the place of the one of its type.
// The conditions of other types stay. Write the result with the cluster's version (PatchAt), so
// that no condition is lost that another controller writes meanwhile.
base::Json ReplaceClusterCondition(const api::StorageCluster& cluster,
                                   const ClusterCondition& condition, const base::Clock& clock);

}  // namespace berth::controllers::blockoperator
