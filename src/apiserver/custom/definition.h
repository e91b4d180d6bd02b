// The parts of a CustomResourceDefinition besides its spec that the server uses: the conditions,
// and the approval that Kubernetes' own groups need. Pure.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/custom/object_check.h"
#include "base/json.h"

namespace berth::apiserver {

inline constexpr std::string_view kCleanupFinalizer = "customresourcecleanup.apiextensions.k8s.io";

struct DefinitionCondition {
  std::string_view type;
  std::string_view status;  // "True", "False", "Unknown"
  std::string_view reason;
  std::string message;
  std::string time;  // RFC 3339: the transition time if the status changes
};

// Sets the entry of that type in status.conditions. Its transition time changes only if its status
// changes.
void SetCondition(Json& definition, const DefinitionCondition& condition);
bool IsConditionTrue(const Json& definition, std::string_view type);

// Groups below k8s.io and kubernetes.io need an approval, because they are for reviewed APIs.
enum class Approval { kNotNeeded, kApproved, kBypassed, kMissing, kMalformed };
Approval ApprovalOf(const Json& definition);

}  // namespace berth::apiserver
