// Secrets that a class names with tokens: "of-${pvc.name}" in the namespace "${pvc.namespace}".
#pragma once

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::controllers {

// Returns `templates` with each ${token} replaced by its value. The namespace may use only the
// tokens of `in_namespace`, the name also those of `in_name`, because a user who could choose the
// namespace would choose whose secrets are read. INVALID_ARGUMENT for an unknown token, and for a
// result that is no valid name of a secret or a namespace.
base::StatusOr<api::SecretReference> FillSecret(const api::SecretReference& templates,
                                                const api::Labels& in_namespace,
                                                const api::Labels& in_name);

}  // namespace berth::controllers
