// Reads a container's annotations out of its config.json, which is skipped otherwise: this program
// is to stay small, and the handler reads it all where it matters.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

using Annotations = std::map<std::string, std::string, std::less<>>;

// Of a name that is there twice the last one counts. kBroken: the text is no JSON object.
base::ipc::Result<Annotations> ReadAnnotations(std::string_view config);

}  // namespace berth::oci
