// Whole copies of a store's database: taken while it is in use, put back while it is not.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::store {

// Writes what `database` holds at this moment to the new file `target` (mode 0600: it holds
// Secrets), durably, and checks that the copy is whole. The database may be in use; the copy is one
// consistent state. ALREADY_EXISTS: `target` is there, and stays. NOT_FOUND: no such database.
base::Status BackUp(const std::string& database, const std::string& target);

// Puts the copy `backup` in the place of `database`, which may be missing or damaged. What stood
// there is kept beside it, under the returned path ("" if there was nothing). FAILED_PRECONDITION:
// a process has the database open. DATA_LOSS: `backup` is not whole, or not Berth's; nothing is
// changed then.
//
// Clients may have seen revisions that the backup does not know. So that no client takes new
// changes for old ones, the restored store continues kRestoreGap after those revisions, and the
// history before is compacted: every client must list again.
base::StatusOr<std::string> Restore(const std::string& backup, const std::string& database);

}  // namespace berth::store
