// SQLite behind RAII and Status: a connection and its prepared statements. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::store {

// Converts the last error of `db` to a Status: SQLITE_FULL is RESOURCE_EXHAUSTED, SQLITE_CORRUPT
// and SQLITE_NOTADB are DATA_LOSS, SQLITE_BUSY is FAILED_PRECONDITION, and all others are INTERNAL.
// Functions below that return a Status return these errors.
base::Status SqliteError(sqlite3* db, std::string_view context);

// A prepared statement.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  // Ends the running execution, so that the statement can be run again: Bind(1, "key"), then Step
  // until it returns false. Arguments that are not bound again keep their values.
  Statement& Reset();
  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, std::string_view text);  // copied by SQLite

  // Reads the next row. False: there is none, and the execution has ended.
  base::StatusOr<bool> Step();
  // Executes a statement whose rows do not matter.
  base::Status Run();

  int64_t ReadInt(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view ReadText(int column) const;  // valid until the next Step or Reset

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A connection to a database file.
class Database {
 public:
  // Opens the file, and creates it unless `read_only` is set. Calls wait for a locked database for
  // at most five seconds.
  static base::StatusOr<Database> Open(const std::string& path, bool read_only);

  // Executes one or several statements and drops their rows.
  base::Status Execute(const std::string& sql);
  base::StatusOr<Statement> Prepare(std::string_view sql);
  // Return the first column of the first row; 0 or "" if there is no row.
  base::StatusOr<int64_t> QueryInt(const std::string& sql);
  base::StatusOr<std::string> QueryText(const std::string& sql);
  int64_t last_row_id() const { return sqlite3_last_insert_rowid(db_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  explicit Database(sqlite3* db) : db_(db) {}
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace berth::store
