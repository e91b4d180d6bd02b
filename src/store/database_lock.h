// One process at a time has a store's database open for writing.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::store {

// Locks the database as long as the descriptor lives. FAILED_PRECONDITION: another process has it.
base::StatusOr<base::UniqueFd> LockDatabase(const std::string& database);

// A file that stands beside a database while a backup is put in its place. If it is still there,
// that was interrupted, and the file under the database's own name may be incomplete.
std::string RestoringPath(const std::string& database);

}  // namespace berth::store
