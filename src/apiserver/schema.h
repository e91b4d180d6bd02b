// The types of the fields of every kind: what has another type is refused before anything reads it,
// as by Kubernetes' decoders, so that `readOnly: "yes"` is an error and not a writable mount.
// Fields that are not listed are kept as they are. Pure.
#pragma once

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

// 400 that names the field and the type that it must have.
base::Status CheckTypes(const api::KindInfo& info, const base::Json& object);

}  // namespace berth::apiserver
