#include "store/revision_table.h"

#include <filesystem>

#include "base/log.h"
#include "base/text.h"

namespace berth::store {
namespace {

using base::Error;
using base::StatusCode;

constexpr int64_t kApplicationId = 0x42727468;  // "Brth"
constexpr int64_t kSchemaVersion = 1;
constexpr int64_t kIncremental = 2;             // of PRAGMA auto_vacuum
constexpr int64_t kMostWal = int64_t{8} << 20;  // bytes that the WAL keeps after a checkpoint

constexpr const char* kSchema = R"sql(
BEGIN;
CREATE TABLE revisions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL,
  previous INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  value TEXT NOT NULL
);
CREATE INDEX revisions_by_key ON revisions (key, id);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('compacted', 0);
PRAGMA application_id = 1114797160;
PRAGMA user_version = 1;
COMMIT;
)sql";

constexpr std::string_view kAdvice =
    "move it aside to start empty, or put a backup of it in its place";

// The smallest text above all that begin with `prefix`; keys are ASCII, so no byte is 0xff.
std::string PrefixEnd(std::string_view prefix) { return std::string(prefix) + "\xff"; }

std::shared_ptr<const std::string> ShareText(std::string_view text) {
  return std::make_shared<const std::string>(text);
}

// DATA_LOSS: the database is of another program or format, or damaged. `pragma` is the check for
// damage: "quick_check" or "integrity_check".
Status CheckIsOurs(Database& db, const std::string& path, std::string_view pragma) {
  ASSIGN_OR_RETURN(const int64_t application, db.QueryInt("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, db.QueryInt("PRAGMA user_version"));
  if (application != kApplicationId) {
    return Error(StatusCode::kDataLoss, "'{}' is a database of another program; {}", path, kAdvice);
  }
  if (version != kSchemaVersion) {
    return Error(StatusCode::kDataLoss, "'{}' has format {}, this program knows {}; {}", path,
                 version, kSchemaVersion, kAdvice);
  }
  ASSIGN_OR_RETURN(const std::string check, db.QueryText(fmt::format("PRAGMA {}(1)", pragma)));
  if (check != "ok") {
    return Error(StatusCode::kDataLoss, "'{}' is damaged ({}); {}", path, check, kAdvice);
  }
  return base::OkStatus();
}

// Rewrites a database of an earlier Berth once, because only then can single pages be taken out of
// the file. Without room for it the database stays as it is, and the next start tries again.
Status PrepareToShrink(Database& db, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t mode, db.QueryInt("PRAGMA auto_vacuum"));
  if (mode == kIncremental) return base::OkStatus();
  std::error_code error;
  const auto file = std::filesystem::file_size(path, error);
  const auto disk = std::filesystem::space(base::FolderOf(path), error);
  if (!error && disk.available / 3 < file) return base::OkStatus();
  const Status rewritten = db.Execute("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
  if (!rewritten.ok()) {
    LOG_WARNING("'{}' cannot get smaller yet: {}", path, base::ToString(rewritten));
    return base::OkStatus();
  }
  LOG_INFO("'{}' is rewritten, so that it gets smaller when objects are deleted", path);
  return base::OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<RevisionTable>> RevisionTable::OpenWriter(const std::string& path) {
  ASSIGN_OR_RETURN(Database db, Database::Open(path, /*read_only=*/false));
  const auto tables = db.QueryInt("SELECT count(*) FROM sqlite_master");
  if (tables.status().code() == StatusCode::kDataLoss) {
    return Error(StatusCode::kDataLoss, "'{}' is not a database: {}; {}", path,
                 base::Message(tables.status()), kAdvice);
  }
  RETURN_IF_ERROR(tables);
  // The check comes before any write, so that another program's database is not changed.
  if (*tables > 0) RETURN_IF_ERROR(CheckIsOurs(db, path, "quick_check"));
  // This must come before the first page is written.
  if (*tables == 0) RETURN_IF_ERROR(db.Execute("PRAGMA auto_vacuum = INCREMENTAL"));
  RETURN_IF_ERROR(db.QueryText("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(db.Execute("PRAGMA synchronous = FULL; PRAGMA cache_size = -1024;"));
  RETURN_IF_ERROR(db.QueryInt(fmt::format("PRAGMA journal_size_limit = {}", kMostWal)));
  if (*tables == 0) RETURN_IF_ERROR(db.Execute(kSchema));
  RETURN_IF_ERROR(PrepareToShrink(db, path));
  std::unique_ptr<RevisionTable> table(new RevisionTable(std::move(db)));
  ASSIGN_OR_RETURN(table->page_bytes_, table->db_.QueryInt("PRAGMA page_size"));
  ASSIGN_OR_RETURN(const int64_t mode, table->db_.QueryInt("PRAGMA auto_vacuum"));
  table->can_shrink_ = mode == kIncremental;
  RETURN_IF_ERROR(table->PrepareStatements());
  return table;
}

StatusOr<std::unique_ptr<RevisionTable>> RevisionTable::OpenReader(const std::string& path) {
  ASSIGN_OR_RETURN(Database db, Database::Open(path, /*read_only=*/true));
  RETURN_IF_ERROR(db.Execute("PRAGMA cache_size = -512;"));
  std::unique_ptr<RevisionTable> table(new RevisionTable(std::move(db)));
  RETURN_IF_ERROR(table->PrepareStatements());
  return table;
}

Status RevisionTable::Verify(const std::string& path) {
  ASSIGN_OR_RETURN(Database db, Database::Open(path, /*read_only=*/true));
  return CheckIsOurs(db, path, "integrity_check");
}

Status RevisionTable::PrepareStatements() {
  const std::pair<std::optional<Statement>*, std::string_view> statements[] = {
      {&find_, "SELECT id, deleted, value FROM revisions WHERE key = ?1 ORDER BY id DESC LIMIT 1"},
      // The inner query reads only the index, in key order, so that the cost of a page depends only
      // on its own rows. With an ORDER BY, the outer query would first sort all rows that follow,
      // so it has none, and List checks the order.
      {&list_,
       "SELECT r.id, r.key, r.value FROM (SELECT key, max(id) AS id FROM revisions "
       "WHERE key > ?1 AND key < ?2 AND id <= ?3 GROUP BY key ORDER BY key) AS newest "
       "CROSS JOIN revisions AS r ON r.id = newest.id WHERE r.deleted = 0 LIMIT ?4"},
      {&count_,
       "SELECT count(*) FROM (SELECT max(id) AS id FROM revisions "
       "WHERE key > ?1 AND key < ?2 AND id <= ?3 GROUP BY key) AS newest "
       "CROSS JOIN revisions AS r ON r.id = newest.id WHERE r.deleted = 0"},
      {&changes_,
       "SELECT r.id, r.key, r.previous, r.deleted, r.value, p.value FROM revisions AS r "
       "LEFT JOIN revisions AS p ON p.id = r.previous "
       "WHERE r.id > ?1 AND r.id <= ?2 AND r.key >= ?3 AND r.key < ?4 ORDER BY r.id"},
      {&append_, "INSERT INTO revisions (key, previous, deleted, value) VALUES (?1, ?2, ?3, ?4)"},
      {&drop_superseded_,
       "DELETE FROM revisions WHERE id IN (SELECT previous FROM revisions "
       "WHERE id > ?1 AND id <= ?2 AND previous > 0)"},
      {&drop_markers_, "DELETE FROM revisions WHERE id > ?1 AND id <= ?2 AND deleted = 1"},
      {&set_compacted_, "UPDATE meta SET value = ?1 WHERE name = 'compacted'"},
  };
  for (const auto& [slot, sql] : statements) {
    ASSIGN_OR_RETURN(*slot, db_.Prepare(sql));
  }
  return base::OkStatus();
}

StatusOr<Revision> RevisionTable::ReadNewestRevision() {
  // sqlite_sequence keeps the newest id even if a compaction has deleted that row.
  return db_.QueryInt("SELECT seq FROM sqlite_sequence WHERE name = 'revisions'");
}

StatusOr<Revision> RevisionTable::ReadCompactedRevision() {
  return db_.QueryInt("SELECT value FROM meta WHERE name = 'compacted'");
}

StatusOr<std::optional<Record>> RevisionTable::Find(std::string_view key) {
  ASSIGN_OR_RETURN(const bool row, find_->Reset().Bind(1, key).Step());
  std::optional<Record> record;
  if (row && find_->ReadInt(1) == 0) {
    record = Record{.key = std::string(key),
                    .value = ShareText(find_->ReadText(2)),
                    .revision = find_->ReadInt(0)};
  }
  find_->Reset();
  return record;
}

StatusOr<Page> RevisionTable::List(std::string_view prefix, std::string_view after, size_t limit,
                                   Revision at) {
  list_->Reset().Bind(1, std::max(prefix, after)).Bind(2, PrefixEnd(prefix)).Bind(3, at);
  list_->Bind(4, limit == 0 ? int64_t{-1} : static_cast<int64_t>(limit) + 1);
  Page page{.records = {}, .revision = at};
  size_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, list_->Step());
    if (!row) return page;
    if (limit != 0 && (page.records.size() == limit || bytes >= kMaxPageBytes)) {
      page.more = true;
      list_->Reset();  // ends the read, because an open one prevents a full checkpoint of the WAL
      return page;
    }
    if (!page.records.empty() && list_->ReadText(1) <= page.records.back().key) {
      list_->Reset();
      return Error(StatusCode::kInternal, "SQLite lists '{}' out of order", prefix);
    }
    page.records.push_back({.key = std::string(list_->ReadText(1)),
                            .value = ShareText(list_->ReadText(2)),
                            .revision = list_->ReadInt(0)});
    bytes += page.records.back().value->size();
  }
}

StatusOr<size_t> RevisionTable::Count(std::string_view prefix, std::string_view after,
                                      Revision at) {
  count_->Reset().Bind(1, std::max(prefix, after)).Bind(2, PrefixEnd(prefix)).Bind(3, at);
  ASSIGN_OR_RETURN(const bool row, count_->Step());
  const size_t count = row ? static_cast<size_t>(count_->ReadInt(0)) : 0;
  count_->Reset();
  return count;
}

Status RevisionTable::VisitChanges(std::string_view prefix, Revision from, Revision to,
                                   const std::function<bool(const Change&)>& visit) {
  changes_->Reset().Bind(1, from).Bind(2, to).Bind(3, prefix).Bind(4, PrefixEnd(prefix));
  while (true) {
    ASSIGN_OR_RETURN(const bool row, changes_->Step());
    if (!row) return base::OkStatus();
    const bool created = changes_->ReadInt(2) == 0;
    const bool deleted = changes_->ReadInt(3) != 0;
    Change change{.type = deleted   ? Change::Type::kDeleted
                          : created ? Change::Type::kCreated
                                    : Change::Type::kUpdated,
                  .record = {.key = std::string(changes_->ReadText(1)),
                             .value = ShareText(changes_->ReadText(4)),
                             .revision = changes_->ReadInt(0)},
                  .previous = nullptr};
    // A delete marker has the last value itself, because compaction may have removed that row.
    if (!created) {
      change.previous = deleted ? change.record.value : ShareText(changes_->ReadText(5));
    }
    if (!visit(change)) break;
  }
  changes_->Reset();
  return base::OkStatus();
}

StatusOr<Revision> RevisionTable::Append(std::string_view key, Revision previous, bool deleted,
                                         std::string_view value) {
  append_->Reset().Bind(1, key).Bind(2, previous).Bind(3, int64_t{deleted}).Bind(4, value);
  RETURN_IF_ERROR(append_->Run());
  return db_.last_row_id();
}

Status RevisionTable::Compact(Revision from, Revision to) {
  RETURN_IF_ERROR(drop_superseded_->Reset().Bind(1, from).Bind(2, to).Run());
  RETURN_IF_ERROR(drop_markers_->Reset().Bind(1, from).Bind(2, to).Run());
  return set_compacted_->Reset().Bind(1, to).Run();
}

StatusOr<TableSize> RevisionTable::ReadSize() {
  TableSize size{.page_bytes = page_bytes_, .can_shrink = can_shrink_};
  ASSIGN_OR_RETURN(size.pages, db_.QueryInt("PRAGMA page_count"));
  ASSIGN_OR_RETURN(size.free_pages, db_.QueryInt("PRAGMA freelist_count"));
  return size;
}

Status RevisionTable::Shrink(int64_t pages) {
  return db_.Execute(fmt::format("PRAGMA incremental_vacuum({})", pages));
}

Status RevisionTable::ForgetHistory(Revision newest) {
  ASSIGN_OR_RETURN(const Revision from, ReadCompactedRevision());
  ASSIGN_OR_RETURN(const Revision to, ReadNewestRevision());
  RETURN_IF_ERROR(BeginTransaction());
  Status done = Compact(from, to);
  if (done.ok()) done = set_compacted_->Reset().Bind(1, newest).Run();
  if (done.ok()) {
    // A table that never had a row has no sequence yet, so the sequence is inserted and not
    // updated.
    done =
        db_.Execute(fmt::format("DELETE FROM sqlite_sequence WHERE name = 'revisions';"
                                "INSERT INTO sqlite_sequence (name, seq) VALUES ('revisions', {})",
                                newest));
  }
  if (done.ok()) done = CommitTransaction();
  if (!done.ok()) RollBackTransaction();
  return done;
}

}  // namespace berth::store
