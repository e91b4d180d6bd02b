// The columns that `kubectl get` shows for each kind (Table). Pure.
#pragma once

#include "api/kind_info.h"
#include "base/clock.h"
#include "base/json.h"

namespace berth::apiserver {

// TableColumnDefinitions: name, type, format, description, priority (1: only with -o wide).
base::Json TableColumns(const api::KindInfo& info);
// One cell for each column. `object` has the stored form (KindInfo::stored_as).
base::Json TableCells(const api::KindInfo& info, const base::Json& object, base::WallTime now);

}  // namespace berth::apiserver
