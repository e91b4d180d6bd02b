// Reads the annotations of a container from its config.json and skips the rest, so that this
// program stays small. The handler reads the whole file if that is needed.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

using Annotations = std::map<std::string, std::string, std::less<>>;

// If a name occurs twice, the last value counts. kBroken: the text is not a JSON object.
base::ipc::Result<Annotations> ReadAnnotations(std::string_view config);

}  // namespace berth::oci
