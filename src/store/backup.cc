#include "store/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "base/fault.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "store/database_files.h"
#include "store/database_lock.h"
#include "store/revision_table.h"

namespace berth::store {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// The revisions that a restore skips: more than the changes of a store between two backups.
constexpr Revision kRestoreGap = 1'000'000'000;

// The errno of the operation that just failed, as a Status.
Status FileError(std::string_view operation, const std::string& path) {
  const StatusCode code = errno == ENOENT   ? StatusCode::kNotFound
                          : errno == EEXIST ? StatusCode::kAlreadyExists
                          : errno == ENOSPC ? StatusCode::kResourceExhausted
                                            : StatusCode::kInternal;
  return Error(code, "{} {}: {}", operation, Quote(path), std::generic_category().message(errno));
}

Status SyncFile(const std::string& path, int flags) {
  const base::UniqueFd fd(open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FileError("open", path);
  return fsync(fd.get()) == 0 ? base::OkStatus() : FileError("sync", path);
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::absolute(path).parent_path();
}

// Renames `from` to `to` durably. ALREADY_EXISTS: there is a file `to`.
Status PublishFile(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(SyncFile(from, 0));
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    return FileError("name the copy", to);
  }
  return SyncFile(FolderOf(to), O_DIRECTORY);
}

// A new database file, which is removed with its companions unless PublishFile has renamed it.
class UnfinishedCopy {
 public:
  explicit UnfinishedCopy(std::string path) : path_(std::move(path)) { RemoveFiles(); }
  ~UnfinishedCopy() { RemoveFiles(); }
  UnfinishedCopy(const UnfinishedCopy&) = delete;
  UnfinishedCopy& operator=(const UnfinishedCopy&) = delete;
  const std::string& path() const { return path_; }

  // Creates an empty file that only the owner can read.
  Status Create() const {
    const base::UniqueFd fd(
        open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    return fd.valid() ? base::OkStatus() : FileError("create", path_);
  }

 private:
  void RemoveFiles() {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) unlink((path_ + suffix).c_str());
  }
  const std::string path_;
};

// Copies a database with SQLite's VACUUM INTO, so that the copy is defragmented and is the state of
// one read transaction. `to` is an empty file.
Status CopyDatabase(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(Database db, Database::Open(from, /*read_only=*/true));
  ASSIGN_OR_RETURN(Statement copy, db.Prepare("VACUUM INTO ?1"));
  return copy.Bind(1, to).Run();
}

// The suffixes of a database's files. The WAL is moved first, because at the new path a database
// without its WAL would look whole but lack the last writes.
constexpr const char* kParts[] = {"-wal", "-shm", ""};

// Renames all files of a database. False: there are none.
StatusOr<bool> MoveDatabase(const std::string& from, const std::string& to) {
  bool any = false;
  for (const char* part : kParts) {
    if (rename((from + part).c_str(), (to + part).c_str()) == 0) {
      any = true;
    } else if (errno != ENOENT) {
      return FileError("rename", from + part);
    }
  }
  return any;
}

// A free path under which a restore keeps the old database: with the time in UTC, and with a number
// if a restore in the same second has taken that. The caller holds the database's lock.
std::string ChooseAsidePath(const std::string& database) {
  char stamp[32];
  const time_t now = time(nullptr);
  tm parts;
  strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &parts));
  const std::string first = fmt::format("{}.before-restore-{}", database, stamp);
  std::string path = first;
  const auto taken = [&path] {
    return std::any_of(std::begin(kParts), std::end(kParts), [&path](const char* part) {
      struct stat st;
      return lstat((path + part).c_str(), &st) == 0;
    });
  };
  for (int number = 2; taken(); ++number) path = fmt::format("{}-{}", first, number);
  return path;
}

// The newest revision of a database that may be damaged or missing; 0 if it cannot be read.
Revision ReadNewestRevisionOf(const std::string& database) {
  if (!std::filesystem::exists(database)) return 0;
  const auto table = RevisionTable::OpenReader(database);
  if (!table.ok()) return 0;
  const auto newest = (*table)->ReadNewestRevision();
  return newest.ok() ? *newest : 0;
}

}  // namespace

Status BackUpDatabase(const std::string& database, const std::string& target) {
  struct stat st;
  if (stat(database.c_str(), &st) != 0) return FileError("open the database", database);
  if (lstat(target.c_str(), &st) == 0) {
    return Error(StatusCode::kAlreadyExists, "{} is there already; name another file",
                 Quote(target));
  }
  const UnfinishedCopy copy(target + ".partial");
  RETURN_IF_ERROR(copy.Create());
  RETURN_IF_ERROR_WITH(CopyDatabase(database, copy.path()),
                       fmt::format("back up {} to {}", Quote(database), Quote(target)));
  RETURN_IF_ERROR(RevisionTable::Verify(copy.path()));
  return PublishFile(copy.path(), target);
}

StatusOr<std::string> RestoreDatabase(const std::string& backup, const std::string& database) {
  struct stat st;
  if (stat(backup.c_str(), &st) != 0) return FileError("open the backup", backup);
  ASSIGN_OR_RETURN(const base::UniqueFd lock, LockDatabase(database));
  RETURN_IF_ERROR(RevisionTable::Verify(backup));
  const UnfinishedCopy copy(RestoringPath(database));
  RETURN_IF_ERROR(copy.Create());
  RETURN_IF_ERROR_WITH(CopyDatabase(backup, copy.path()),
                       fmt::format("restore {} from {}", Quote(database), Quote(backup)));
  {
    ASSIGN_OR_RETURN(const auto table, RevisionTable::OpenWriter(copy.path()));
    ASSIGN_OR_RETURN(const Revision newest, table->ReadNewestRevision());
    RETURN_IF_ERROR(
        table->ForgetHistory(std::max(newest, ReadNewestRevisionOf(database)) + kRestoreGap));
  }
  RETURN_IF_ERROR(MakeFilesPrivate(database));  // the replaced one keeps its mode
  RETURN_IF_ERROR(base::FaultPoint<"store.restore.before">());
  const std::string aside = ChooseAsidePath(database);
  ASSIGN_OR_RETURN(const bool kept, MoveDatabase(database, aside));
  Status published = base::FaultPoint<"store.restore.aside">();
  if (published.ok()) published = PublishFile(copy.path(), database);
  if (!published.ok()) {
    if (kept) RETURN_IF_ERROR(MoveDatabase(aside, database));
    return published;
  }
  return kept ? aside : "";
}

}  // namespace berth::store
