// Secrets that a class names with tokens: "of-${pvc.name}" in "${pvc.namespace}".
#pragma once

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::controllers {

// `templates` with each ${token} replaced by its value: in the namespace those of `in_namespace`
// alone, in the name those of `in_name` as well. A namespace comes from less: whoever chose it
// would choose whose secrets are read. INVALID_ARGUMENT for an unknown token, and for what is no
// name of a secret or a namespace in the end.
base::StatusOr<api::SecretReference> FillSecret(const api::SecretReference& templates,
                                                const api::Labels& in_namespace,
                                                const api::Labels& in_name);

}  // namespace berth::controllers
