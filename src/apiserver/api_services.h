// The APIService objects: one for each group and version that is served, kept by the server.
#pragma once

#include <span>

#include "api/kind_info.h"
#include "base/clock.h"
#include "store/store.h"

namespace berth::apiserver {

// Makes, changes and removes APIServices until they tell what `kinds` serve. Blocks on the store.
base::Status SyncApiServices(store::Store& store, const base::Clock& clock,
                             std::span<const api::KindInfo* const> kinds);

}  // namespace berth::apiserver
