// The lock by which only one process at a time has a store's database open for writing.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::store {

// Locks the database until the returned descriptor is closed, by the file "<database>.lock", which
// is created and stays. FAILED_PRECONDITION: the lock is held already. INTERNAL: the file cannot be
// opened.
base::StatusOr<base::UniqueFd> LockDatabase(const std::string& database);

// The path of a file that exists while a backup is put in the place of the database. If the file
// exists although no restore is running, a restore was interrupted, and `database` may be missing
// or incomplete.
std::string RestoringPath(const std::string& database);

}  // namespace berth::store
