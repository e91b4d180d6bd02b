// The object store of the embedded API: versioned keys on SQLite.
//
// Every write appends a row whose id is the revision, so that one decimal counter orders all
// changes of all kinds. Writes from many threads are grouped into one transaction and one fsync
// (synchronous=FULL, WAL); a write is answered after its group is durable, and only then do
// watchers see it.
//
// Keys are "/<resource>/<namespace>/<name>" ("/<resource>/<name>" without namespace), where
// <resource> is "pods" or "storageclasses.storage.k8s.io". Values are the objects' JSON without
// resourceVersion; readers get value and revision.
//
// Thread-safe. A full disk gives RESOURCE_EXHAUSTED and a failing one INTERNAL; both leave
// everything that was acknowledged as it was.
#pragma once

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
  Revision revision = 0;  // of the last change
};

struct Change {
  enum class Type { kCreated, kUpdated, kDeleted };
  Type type;
  Record record;  // for kDeleted: the last value, with the delete's revision
  std::shared_ptr<const std::string> previous;  // value before; null for kCreated
};

// A write that is applied only if the key is at `expected` (0: must not exist).
struct Write {
  std::string key;
  Revision expected = 0;
  std::optional<std::string> value;  // nullopt: delete
};

struct Page {
  std::vector<Record> records;  // ordered by key
  Revision revision = 0;        // of the snapshot that the page shows
  bool more = false;
};

// A piece of the history.
struct History {
  std::vector<Change> changes;  // in revision order
  Revision through = 0;         // nothing is left out up to this revision
};

// A page ends early, with at least one record in it, where its values reach this size together.
inline constexpr size_t kMaxPageBytes = 1024 * 1024;

// Receives changes in revision order, one call at a time. Changes that precede Watch are delivered
// during that call, all later ones on the store's fan-out thread. Must not block.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void OnChange(const Change& change) = 0;
  // The store's revision moved to `revision` and all changes up to it have been delivered.
  virtual void OnProgress(Revision revision) {}
};

class Store {
 public:
  struct Options {
    std::string path;                // of the database file; its folder must exist
    size_t max_group = 512;          // writes in one transaction at most
    int64_t keep_revisions = 20000;  // revisions behind the newest one that compaction keeps
  };

  // Opens or creates the database. FAILED_PRECONDITION: another process has it open. DATA_LOSS: not
  // a database of Berth's, or damaged; the message says what to do.
  static StatusOr<std::unique_ptr<Store>> Open(const Options& options);
  virtual ~Store() = default;

  virtual Revision current() const = 0;
  // History up to this revision is gone: reads and watches from below it give OUT_OF_RANGE.
  virtual Revision compacted() const = 0;

  virtual StatusOr<Record> Get(std::string_view key) = 0;  // NOT_FOUND

  // Records below `prefix`, which ends with '/', whose key is greater than `after`, at most `limit`
  // (0: all, whatever their size), as of revision `at` (0: now). OUT_OF_RANGE if `at` was compacted
  // or lies in the future.
  virtual StatusOr<Page> List(std::string_view prefix, std::string_view after, size_t limit,
                              Revision at) = 0;

  // The number of records that List would give without a limit. The time depends on that number.
  virtual StatusOr<size_t> Count(std::string_view prefix, std::string_view after, Revision at) = 0;

  // The first changes of keys with `prefix` after revision `from`, at most `limit` and a page's
  // size. OUT_OF_RANGE as Watch.
  virtual StatusOr<History> Changes(std::string_view prefix, Revision from, size_t limit) = 0;

  // Blocks until the write is durable; gives its revision. ALREADY_EXISTS (expected 0), NOT_FOUND
  // and ABORTED (the key is at another revision) change nothing.
  virtual StatusOr<Revision> Apply(Write write) = 0;

  // As Apply, but returns at once; `done` runs on the store's writer thread and must not block.
  virtual void ApplyAsync(Write write, std::function<void(StatusOr<Revision>)> done) = 0;

  // Delivers changes of keys with `prefix` after revision `from` (0: only new ones) until the
  // returned handle is destroyed, which waits for a running delivery. OUT_OF_RANGE if `from` was
  // compacted or lies in the future (a client of a database that was since restored).
  virtual StatusOr<std::shared_ptr<void>> Watch(std::string prefix, Revision from,
                                                std::shared_ptr<Watcher> watcher) = 0;

  // Removes superseded rows and delete markers up to `revision`.
  virtual Status Compact(Revision revision) = 0;
};

}  // namespace berth::store
