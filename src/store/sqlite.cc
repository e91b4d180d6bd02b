#include "store/sqlite.h"

namespace berth::store {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Status SqliteError(sqlite3* db, std::string_view context) {
  const int code = sqlite3_errcode(db);
  StatusCode status = StatusCode::kInternal;
  switch (code & 0xff) {
    case SQLITE_FULL:
      status = StatusCode::kResourceExhausted;
      break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      status = StatusCode::kDataLoss;
      break;
    case SQLITE_BUSY:
      status = StatusCode::kFailedPrecondition;
      break;
    default:
      break;
  }
  return Error(status, "{}: {}", context, sqlite3_errmsg(db));
}

Statement& Statement::Reset() {
  sqlite3_reset(statement_.get());
  return *this;
}

Statement& Statement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

StatusOr<bool> Statement::Step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      sqlite3_reset(statement_.get());
      return false;
    default: {
      const Status error =
          SqliteError(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
      sqlite3_reset(statement_.get());
      return error;
    }
  }
}

Status Statement::Run() {
  ASSIGN_OR_RETURN(const bool row, Step());
  if (row) sqlite3_reset(statement_.get());
  return base::OkStatus();
}

std::string_view Statement::ReadText(int column) const {
  // The text is read before its size, because reading it may convert the value.
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<size_t>(size));
}

StatusOr<Database> Database::Open(const std::string& path, bool read_only) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_NOMUTEX |
                    (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return SqliteError(raw, fmt::format("open database '{}'", path));
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 5000);
  return db;
}

Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return SqliteError(db_.get(), sql);
  }
  return base::OkStatus();
}

StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK) {
    return SqliteError(db_.get(), sql);
  }
  return Statement(raw);
}

StatusOr<int64_t> Database::QueryInt(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.ReadInt(0) : 0;
}

StatusOr<std::string> Database::QueryText(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? std::string(statement.ReadText(0)) : std::string();
}

}  // namespace berth::store
