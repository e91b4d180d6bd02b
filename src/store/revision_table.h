// The append-only table of revisions and the queries on it. One object has one connection. Not
// thread-safe.
//
//   id        the revision
//   key       see store.h
//   previous  the revision of this key that this row supersedes; 0: the key was created
//   deleted   1: the key was deleted; `value` is its last one
//   value     the object's JSON
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/sqlite.h"
#include "store/store.h"

namespace berth::store {

// The size of a database file, in pages.
struct TableSize {
  int64_t pages = 0;
  int64_t free_pages = 0;  // of these
  int64_t page_bytes = 0;
  bool can_shrink = false;  // RevisionTable::Shrink has an effect
};

class RevisionTable {
 public:
  // Opens the database for writing, and creates the table if the database is empty. DATA_LOSS: the
  // database is not Berth's or is damaged; it is left as it is.
  static StatusOr<std::unique_ptr<RevisionTable>> OpenWriter(const std::string& path);
  // Opens the database for reading, without these checks.
  static StatusOr<std::unique_ptr<RevisionTable>> OpenReader(const std::string& path);
  // Reads the whole database. DATA_LOSS: it is not Berth's, or a page or index of it is damaged.
  static Status Verify(const std::string& path);

  StatusOr<Revision> ReadNewestRevision();
  StatusOr<Revision> ReadCompactedRevision();

  // The newest record of `key`; nullopt if it does not exist or is deleted.
  StatusOr<std::optional<Record>> Find(std::string_view key);

  // As Store::List and Store::Count, without their checks of `at`.
  StatusOr<Page> List(std::string_view prefix, std::string_view after, size_t limit, Revision at);
  StatusOr<size_t> Count(std::string_view prefix, std::string_view after, Revision at);

  // Calls `visit` with the changes of keys with `prefix` in revisions (from, to], in order, until
  // `visit` returns false.
  Status VisitChanges(std::string_view prefix, Revision from, Revision to,
                      const std::function<bool(const Change&)>& visit);

  // A transaction, in which the caller calls Append and Compact.
  Status BeginTransaction() { return db_.Execute("BEGIN IMMEDIATE"); }
  Status CommitTransaction() { return db_.Execute("COMMIT"); }
  // Failures are ignored, because ROLLBACK fails only if SQLite has rolled back by itself.
  void RollBackTransaction() { db_.Execute("ROLLBACK").IgnoreError(); }
  // Adds a row, and returns its revision.
  StatusOr<Revision> Append(std::string_view key, Revision previous, bool deleted,
                            std::string_view value);
  // Removes the rows that rows in (from, to] supersede, and the delete markers in (from, to].
  // Records `to` as the compacted revision.
  Status Compact(Revision from, Revision to);
  StatusOr<TableSize> ReadSize();
  // Takes at most `pages` free pages out of the file, in a transaction of its own. The file gets
  // shorter at the next checkpoint.
  Status Shrink(int64_t pages);
  // Copies what readers allow of the WAL into the database file.
  Status Checkpoint() { return db_.QueryInt("PRAGMA wal_checkpoint(PASSIVE)").status(); }
  // Compacts all history, and makes newest + 1 the next revision. Runs a transaction of its own.
  Status ForgetHistory(Revision newest);

 private:
  explicit RevisionTable(Database db) : db_(std::move(db)) {}
  Status PrepareStatements();

  Database db_;
  int64_t page_bytes_ = 0;   // set by OpenWriter
  bool can_shrink_ = false;  // set by OpenWriter
  std::optional<Statement> find_, list_, count_, changes_, append_, drop_superseded_, drop_markers_,
      set_compacted_;
};

}  // namespace berth::store
