// The files of a database on disk: the database, its WAL and shared memory, its lock, and the
// databases that restores have kept.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::store {

// Takes the rights of group and others away from all files in the database's folder whose name
// begins with the database's, because they contain Secrets. Logs which files were open
// (base/files/private_mode.h).
base::Status MakeFilesPrivate(const std::string& database);

// Makes an empty database file with mode 0600 if there is none. SQLite would make it readable for
// everybody, and gives the WAL the mode of the database.
base::Status MakeDatabaseFile(const std::string& database);

}  // namespace berth::store
