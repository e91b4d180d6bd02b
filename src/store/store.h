// The object store of the embedded API: versioned keys on SQLite.
//
// Every write appends a row whose id is the revision, so that one decimal counter orders all
// changes of all kinds. Writes from many threads are grouped into one transaction and one fsync
// (synchronous=FULL, WAL). A thread that writes while nobody else does commits its write itself. A
// write is answered after its group is durable, and only then do watchers see it.
//
// Keys are "/<resource>/<namespace>/<name>" ("/<resource>/<name>" without namespace), where
// <resource> is "pods" or "storageclasses.storage.k8s.io". Values are the objects' JSON without
// resourceVersion; readers get value and revision.
//
// Thread-safe. Besides the errors named below, each function returns RESOURCE_EXHAUSTED if the disk
// is full, and DATA_LOSS or INTERNAL if the disk fails. The store never drops a write that it has
// acknowledged.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::store {

using base::Status;
using base::StatusOr;
using Revision = int64_t;

struct Record {
  std::string key;
  std::shared_ptr<const std::string> value;
  Revision revision = 0;  // of the record's last change
};

struct Change {
  enum class Type { kCreated, kUpdated, kDeleted };
  Type type;
  Record record;  // for kDeleted: the last value, with the delete's revision
  std::shared_ptr<const std::string> previous;  // the value before the change; null for kCreated
};

// A write that is applied only if the key is at revision `expected`. 0: the key must not exist.
struct Write {
  std::string key;
  Revision expected = 0;
  std::optional<std::string> value;  // nullopt: delete
};

struct Page {
  std::vector<Record> records;  // ordered by key
  Revision revision = 0;        // the page shows the records as of this revision
  bool more = false;            // whether records follow the page
};

// A piece of the history.
struct History {
  std::vector<Change> changes;  // in revision order
  Revision through = 0;         // `changes` is complete up to this revision
};

// A page ends before its limit, with at least one record, once its values have this size together.
inline constexpr size_t kMaxPageBytes = 1024 * 1024;

// Receives changes in revision order, one call at a time. Watch calls it on the caller's thread for
// changes that were committed before, and the store's fan-out thread calls it for all later ones.
// Its functions must not block.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void OnChange(const Change& change) = 0;
  // All changes up to `revision` have been delivered, also if none of them was for this watcher.
  virtual void OnProgress(Revision revision) {}
  // Changes for this watcher could not be read. It gets no further call, and its owner has to list
  // the records and watch anew.
  virtual void OnLost(const Status& why) = 0;
};

// Room on the disk that is kept for the store. Thread-safe, and called by one writer at a time.
class Reserve {
 public:
  virtual ~Reserve() = default;
  // Gives the room up if the disk is full. True: a write that found no room is worth repeating,
  // because this call gave the room up, or somebody else has done so meanwhile.
  virtual bool GiveUp() = 0;
  // Whether it was given up, and the disk has had no room for it since. Until then the store takes
  // only updates and deletes, which are what frees room, and refuses to create records.
  virtual bool IsGivenUp() = 0;
};

// How the database file gets smaller after much was deleted.
struct UpkeepOptions {
  // A file of more bytes keeps less history than keep_revisions: only what is younger than
  // keep_history. Clients that watch from an older revision must list again, as with etcd.
  int64_t small_file = int64_t{8} << 20;
  std::chrono::milliseconds keep_history = std::chrono::minutes(5);
};

class Store {
 public:
  struct Options {
    std::string path;                // of the database file; its folder must exist
    size_t max_group = 512;          // writes in one transaction at most
    int64_t keep_revisions = 20000;  // newest revisions that compaction keeps
    Reserve* reserve = nullptr;      // borrowed; null: none is kept
    UpkeepOptions upkeep = {};
  };

  // Opens or creates the database. Its files get mode 0600, because they contain Secrets.
  // FAILED_PRECONDITION: another process has it open. DATA_LOSS: it is damaged or not Berth's, or a
  // restore was interrupted; the message says what to do.
  static StatusOr<std::unique_ptr<Store>> Open(const Options& options);
  virtual ~Store() = default;

  // The newest revision.
  virtual Revision current() const = 0;
  // The history before this revision is gone: reads and watches from an older revision return
  // OUT_OF_RANGE.
  virtual Revision compacted() const = 0;

  // NOT_FOUND: `key` does not exist.
  virtual StatusOr<Record> Get(std::string_view key) = 0;

  // Records below `prefix`, which ends with '/', whose key is greater than `after`, at most `limit`
  // and kMaxPageBytes (0: all, of any size), as of revision `at` (0: the current one).
  // OUT_OF_RANGE: `at` was compacted or is greater than the current revision.
  virtual StatusOr<Page> List(std::string_view prefix, std::string_view after, size_t limit,
                              Revision at) = 0;

  // The number of records that List would return without a limit. The time depends on that number.
  virtual StatusOr<size_t> Count(std::string_view prefix, std::string_view after, Revision at) = 0;

  // Reads the first changes of keys with `prefix` after revision `from`, at most `limit` and
  // kMaxPageBytes, but at least one. OUT_OF_RANGE as Watch.
  virtual StatusOr<History> ReadChanges(std::string_view prefix, Revision from, size_t limit) = 0;

  // Blocks until the write is durable, and returns its revision. ALREADY_EXISTS (`expected` is 0),
  // NOT_FOUND, ABORTED (the key is at another revision): nothing was written.
  virtual StatusOr<Revision> Apply(Write write) = 0;

  // As Apply, but does not wait: the store's writer thread commits the write and calls `done`,
  // which must not block. With CommitOn::kThisThread the caller commits the write and calls `done`
  // before this returns, if no other write is under way or waits; else the writer thread does it.
  enum class CommitOn { kWriterThread, kThisThread };
  virtual void ApplyAsync(Write write, std::function<void(StatusOr<Revision>)> done,
                          CommitOn where) = 0;

  // Delivers changes of keys with `prefix` after revision `from` (0: only new ones) until the
  // returned handle is destroyed. That waits for a running delivery, unless the watcher itself
  // destroys it; the store must outlive the handle. OUT_OF_RANGE: `from` was compacted, or is
  // greater than the current revision (the client knows the database from before a restore).
  virtual StatusOr<std::shared_ptr<void>> Watch(std::string prefix, Revision from,
                                                std::shared_ptr<Watcher> watcher) = 0;

  // Removes superseded rows and delete markers up to `revision`, or up to the current revision if
  // that is smaller. Blocks until it is done.
  virtual Status Compact(Revision revision) = 0;
};

}  // namespace berth::store
