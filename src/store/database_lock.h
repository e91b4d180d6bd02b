// One process at a time has a store's database open for writing.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::store {

// Held for as long as the descriptor lives. FAILED_PRECONDITION: another process has it.
base::StatusOr<base::UniqueFd> LockDatabase(const std::string& database);

// Stands beside a database while a backup is put in its place. One that is left says that this was
// cut off, and that what stands under the database's own name may be a part of it.
std::string RestoringPath(const std::string& database);

}  // namespace berth::store
