// The APIService objects: one for each group and version that is served. The server maintains them.
#pragma once

#include <span>

#include "api/kind_info.h"
#include "base/clock.h"
#include "store/store.h"

namespace berth::apiserver {

// Creates, updates and deletes APIServices so that they match `kinds`. Blocks on the store, whose
// errors it returns. Call it on one thread at a time.
base::Status SyncApiServices(store::Store& store, const base::Clock& clock,
                             std::span<const api::KindInfo* const> kinds);

}  // namespace berth::apiserver
