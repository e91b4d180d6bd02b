// The append-only table of revisions and the queries on it: one object per connection, not
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

class RevisionTable {
 public:
  // Opens the database for writing, and creates the table in an empty one. Checks that the database
  // is Berth's and undamaged.
  static StatusOr<std::unique_ptr<RevisionTable>> OpenWriter(const std::string& path);
  static StatusOr<std::unique_ptr<RevisionTable>> OpenReader(const std::string& path);
  // DATA_LOSS unless the file is a database of Berth's and every page and index of it is sound.
  static Status Verify(const std::string& path);

  StatusOr<Revision> NewestRevision();
  StatusOr<Revision> CompactedRevision();

  // The newest row of `key`; nullopt if it does not exist or is deleted.
  StatusOr<std::optional<Record>> Find(std::string_view key);

  // As Store::List and Store::Count, without their checks of `at`.
  StatusOr<Page> List(std::string_view prefix, std::string_view after, size_t limit, Revision at);
  StatusOr<size_t> Count(std::string_view prefix, std::string_view after, Revision at);

  // Calls `visit` with the changes of keys with `prefix` in revisions (from, to], in order, until
  // it gives false.
  Status Changes(std::string_view prefix, Revision from, Revision to,
                 const std::function<bool(const Change&)>& visit);

  // These write within the caller's transaction.
  Status Begin() { return db_.Execute("BEGIN IMMEDIATE"); }
  Status Commit() { return db_.Execute("COMMIT"); }
  // A failure to roll back leaves no transaction either: SQLite has rolled back by itself.
  void Rollback() { db_.Execute("ROLLBACK").IgnoreError(); }
  StatusOr<Revision> Append(std::string_view key, Revision previous, bool deleted,
                            std::string_view value);
  // Drops what rows in (from, to] supersede, and their delete markers, and records `to` as
  // compacted.
  Status Compact(Revision from, Revision to);
  // Compacts all history and lets the next revision follow `newest`. A transaction of its own.
  Status Forget(Revision newest);

 private:
  explicit RevisionTable(Database db) : db_(std::move(db)) {}
  Status Prepare();

  Database db_;
  std::optional<Statement> find_, list_, count_, changes_, append_, drop_superseded_, drop_markers_,
      set_compacted_;
};

}  // namespace berth::store
