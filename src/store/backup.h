// Backs up and restores the whole database of a store. A backup can be made while the database is
// in use, a restore cannot.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::store {

// Writes the present content of `database` to the new file `target` durably, and checks that the
// copy is whole. The copy has mode 0600, because it contains Secrets. The database may be in use;
// the copy is one consistent state. ALREADY_EXISTS: `target` exists, and is left as it is.
// NOT_FOUND: `database` does not exist. DATA_LOSS: `database` is damaged or not Berth's.
base::Status BackUpDatabase(const std::string& database, const std::string& target);

// Puts a copy of `backup` in the place of `database`, which may be missing or damaged. The old
// database is kept under the returned path, in the same folder ("": there was none).
// FAILED_PRECONDITION: a process has the database open. NOT_FOUND: `backup` does not exist.
// DATA_LOSS: `backup` is damaged or not Berth's. The database is not changed in these cases. The
// database and what is kept get mode 0600, because they contain Secrets.
//
// Clients may have seen revisions that are not in the backup, and must not take new changes for
// those. So the restored store continues a billion revisions later, and its history is compacted:
// every client must list again.
base::StatusOr<std::string> RestoreDatabase(const std::string& backup, const std::string& database);

}  // namespace berth::store
