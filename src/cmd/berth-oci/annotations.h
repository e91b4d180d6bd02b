// Reads the annotations of a container from its config.json and skips the rest, because this
// program is to stay small. The handler reads the whole file where that is needed.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

using Annotations = std::map<std::string, std::string, std::less<>>;

// If a name occurs twice, the last one counts. kBroken: the text is no JSON object.
base::ipc::Result<Annotations> ReadAnnotations(std::string_view config);

}  // namespace berth::oci
