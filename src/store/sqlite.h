// SQLite behind RAII and Status: a connection and its prepared statements. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::store {

// SQLite's result code as a Status: SQLITE_FULL RESOURCE_EXHAUSTED, SQLITE_CORRUPT and
// SQLITE_NOTADB DATA_LOSS, SQLITE_BUSY FAILED_PRECONDITION, all else INTERNAL.
base::Status SqliteError(sqlite3* db, std::string_view context);

class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  // Starts over with new arguments: Bind(1, "key"), then Step until it gives false.
  Statement& Reset();
  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, std::string_view text);  // copied by SQLite

  base::StatusOr<bool> Step();  // true: a row is there
  base::Status Run();           // for statements without rows

  int64_t ReadInt(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view ReadText(int column) const;  // valid until the next Step or Reset

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  static base::StatusOr<Database> Open(const std::string& path, bool read_only);

  base::Status Execute(const std::string& sql);
  base::StatusOr<Statement> Prepare(std::string_view sql);
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
