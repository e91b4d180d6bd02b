// The Store on SQLite: one writer at a time, a few reader connections, a fan-out thread.
//
// The writer is a thread that groups writes, or a caller that finds nothing to wait for, because
// waking a thread takes longer than a write. What comes meanwhile is the thread's, as is
// compaction.

#include <pthread.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <future>
#include <thread>

#include "base/fault.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "store/database_files.h"
#include "store/database_lock.h"
#include "store/fan_out.h"
#include "store/record_cache.h"
#include "store/revision_table.h"
#include "store/store.h"
#include "store/upkeep.h"

namespace berth::store {
namespace {

using base::Error;
using base::MutexLock;
using base::StatusCode;

// The number of revisions of one compaction step. Writes wait for a step, about a millisecond.
constexpr Revision kCompactionStep = 500;
// Of the upkeep, which has time: 500 revisions of large objects delayed writes by 23 ms.
constexpr Revision kUpkeepStep = 100;
// The history that is kept while the disk is full, because the rows before it make room for
// deletions.
constexpr Revision kScarceHistory = 100;
constexpr Revision kScarceStep = 50;

class SqliteStore : public Store {
 public:
  SqliteStore(Options options, base::UniqueFd lock, std::unique_ptr<RevisionTable> writer,
              Revision newest, Revision compacted)
      : options_(std::move(options)),
        lock_(std::move(lock)),
        writer_(std::move(writer)),
        upkeep_(options_.upkeep),
        current_(newest),
        compacted_(compacted),
        removed_(compacted),
        fan_out_(newest,
                 [this](std::string_view prefix, Revision from, Revision to, const auto& visit) {
                   return WithReader([&](RevisionTable& table) {
                     return table.VisitChanges(prefix, from, to, [&](const Change& change) {
                       visit(change);
                       return true;
                     });
                   });
                 }) {
    thread_ = std::jthread([this] {
      pthread_setname_np(pthread_self(), "store-writer");
      WriterLoop();
    });
  }

  ~SqliteStore() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      wake_.NotifyAll();
    }
    thread_.join();
  }

  Revision current() const override { return current_.load(); }
  Revision compacted() const override { return compacted_.load(); }

  StatusOr<Record> Get(std::string_view key) override {
    std::optional<Record> record = cache_.Find(key);
    if (record.has_value()) return *std::move(record);
    const uint64_t begun = cache_.BeginRead();
    RETURN_IF_ERROR(WithReader([&](RevisionTable& table) -> Status {
      ASSIGN_OR_RETURN(record, table.Find(key));
      return base::OkStatus();
    }));
    if (!record.has_value()) return Error(StatusCode::kNotFound, "key '{}' does not exist", key);
    cache_.KeepRecord(*record, begun);
    return *std::move(record);
  }

  StatusOr<Page> List(std::string_view prefix, std::string_view after, size_t limit,
                      Revision at) override {
    Page page;
    page.revision = at == 0 ? current() : at;
    RETURN_IF_ERROR(CheckNotInFuture(page.revision));
    RETURN_IF_ERROR(WithReader([&](RevisionTable& table) -> Status {
      ASSIGN_OR_RETURN(page, table.List(prefix, after, limit, page.revision));
      return base::OkStatus();
    }));
    // This check comes after the read, because a compaction may have run meanwhile.
    RETURN_IF_ERROR(CheckNotCompacted(page.revision));
    return page;
  }

  StatusOr<size_t> Count(std::string_view prefix, std::string_view after, Revision at) override {
    if (at == 0) at = current();
    size_t count = 0;
    RETURN_IF_ERROR(CheckNotInFuture(at));
    RETURN_IF_ERROR(WithReader([&](RevisionTable& table) -> Status {
      ASSIGN_OR_RETURN(count, table.Count(prefix, after, at));
      return base::OkStatus();
    }));
    RETURN_IF_ERROR(CheckNotCompacted(at));
    return count;
  }

  StatusOr<History> ReadChanges(std::string_view prefix, Revision from, size_t limit) override {
    History history;
    history.through = current();
    RETURN_IF_ERROR(CheckNotInFuture(from));
    size_t bytes = 0;
    RETURN_IF_ERROR(WithReader([&](RevisionTable& table) {
      return table.VisitChanges(prefix, from, history.through, [&](const Change& change) {
        history.changes.push_back(change);
        bytes += change.record.value->size();
        if (history.changes.size() < limit && bytes < kMaxPageBytes) return true;
        history.through = change.record.revision;
        return false;
      });
    }));
    RETURN_IF_ERROR(CheckNotCompacted(from));
    return history;
  }

  StatusOr<Revision> Apply(Write write) override {
    std::promise<StatusOr<Revision>> promise;
    auto result = promise.get_future();
    ApplyAsync(
        std::move(write), [&](StatusOr<Revision> r) { promise.set_value(std::move(r)); },
        CommitOn::kThisThread);
    return result.get();
  }

  void ApplyAsync(Write write, std::function<void(StatusOr<Revision>)> done,
                  CommitOn where) override {
    std::vector<Pending> group(1);
    Pending& pending = group.front();
    pending.write = std::move(write);
    pending.done = std::move(done);
    if (pending.write.value.has_value()) {
      pending.value = std::make_shared<const std::string>(*std::move(pending.write.value));
    }
    {
      MutexLock lock(mutex_);
      if (where == CommitOn::kWriterThread || writing_ || HasQueuedWork()) {
        pending_.push_back(std::move(pending));
        if (!writing_) wake_.NotifyAll();  // else EndWriting does
        return;
      }
      writing_ = true;
    }
    std::vector<StatusOr<Revision>> results = CommitGroup(group);
    EndWriting(FindHistoryTarget() != 0);
    // The answers come last, because the store may be gone after them.
    AnswerGroup(group, std::move(results));
  }

  StatusOr<std::shared_ptr<void>> Watch(std::string prefix, Revision from,
                                        std::shared_ptr<Watcher> watcher) override {
    const Revision now = current();
    RETURN_IF_ERROR(CheckNotInFuture(from));
    if (from == 0) from = now;
    RETURN_IF_ERROR(CheckNotCompacted(from));
    if (from < now) {
      RETURN_IF_ERROR(WithReader([&](RevisionTable& table) {
        return table.VisitChanges(prefix, from, now, [&](const Change& change) {
          watcher->OnChange(change);
          return true;
        });
      }));
      RETURN_IF_ERROR(CheckNotCompacted(from));
    }
    std::shared_ptr<void> handle = fan_out_.AddWatcher(std::move(prefix), now, std::move(watcher));
    // A compaction that began before may remove changes that the watcher still needs. One that
    // begins later waits for the watcher (WaitUntilCaughtUp).
    RETURN_IF_ERROR(CheckNotCompacted(now));
    return handle;
  }

  Status Compact(Revision revision) override {
    std::promise<Status> promise;
    auto result = promise.get_future();
    {
      MutexLock lock(mutex_);
      compactions_.push_back({std::min(revision, current()), &promise});
      wake_.NotifyAll();
    }
    return result.get();
  }

 private:
  struct Pending {
    Write write;                               // without its value
    std::shared_ptr<const std::string> value;  // null: delete
    std::function<void(StatusOr<Revision>)> done;
  };
  struct Compaction {
    Revision to;
    std::promise<Status>* done;
  };

  Status CheckNotInFuture(Revision revision) const {
    const Revision now = current();
    if (revision <= now) return base::OkStatus();
    return Error(StatusCode::kOutOfRange, "revision {} does not exist, the newest is {}", revision,
                 now);
  }

  Status CheckNotCompacted(Revision revision) const {
    const Revision compacted = compacted_.load();
    if (revision >= compacted) return base::OkStatus();
    return Error(StatusCode::kOutOfRange, "revision {} was compacted (up to {})", revision,
                 compacted);
  }

  // Calls `use` with a reader connection of the pool; opens another one if all are in use.
  Status WithReader(const std::function<Status(RevisionTable&)>& use) {
    std::unique_ptr<RevisionTable> reader;
    {
      MutexLock lock(readers_mutex_);
      if (!readers_.empty()) {
        reader = std::move(readers_.back());
        readers_.pop_back();
      }
    }
    if (reader == nullptr) {
      ASSIGN_OR_RETURN(reader, RevisionTable::OpenReader(options_.path));
    }
    const Status status = use(*reader);
    constexpr size_t kKeptReaders = 4;
    MutexLock lock(readers_mutex_);
    if (readers_.size() < kKeptReaders) readers_.push_back(std::move(reader));
    return status;
  }

  bool HasQueuedWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !pending_.empty() || !compactions_.empty() || history_is_long_ || stopping_;
  }

  // Ends the turn of the writer, and wakes the thread if it has something to do.
  void EndWriting(bool history_is_long) {
    MutexLock lock(mutex_);
    writing_ = false;
    history_is_long_ = history_is_long;
    if (HasQueuedWork() || thread_waits_for_turn_) wake_.NotifyAll();
  }

  // Waits until there is something to do and nobody else writes, and takes the turn.
  void WaitForTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (true) {
      const bool due = HasQueuedWork() || std::chrono::steady_clock::now() >= upkeep_.next();
      if (due && !writing_) break;
      thread_waits_for_turn_ = due;
      if (due) {
        wake_.Wait(mutex_);
      } else {
        wake_.WaitUntil(mutex_, upkeep_.next());
      }
    }
    thread_waits_for_turn_ = false;
    writing_ = true;
  }

  void WriterLoop() {
    while (true) {
      std::vector<Pending> group;
      std::vector<Compaction> compactions;
      {
        MutexLock lock(mutex_);
        WaitForTurn();
        if (stopping_ && pending_.empty() && compactions_.empty()) return;
        while (!pending_.empty() && group.size() < options_.max_group) {
          group.push_back(std::move(pending_.front()));
          pending_.pop_front();
        }
        compactions.swap(compactions_);
      }
      if (!group.empty()) AnswerGroup(group, CommitGroup(group));
      for (const Compaction& compaction : compactions) {
        compaction.done->set_value(CompactUpTo(compaction.to));
      }
      CompactOldHistory();
      if (std::chrono::steady_clock::now() >= upkeep_.next()) RunUpkeep();
      EndWriting(/*history_is_long=*/false);  // a step that failed waits for the next write
    }
  }

  // Makes the file smaller by one short step, if there is one to make. Writes wait for a step, and
  // not for the whole.
  void RunUpkeep() {
    const auto now = std::chrono::steady_clock::now();
    const auto step = [&]() -> StatusOr<Upkeep::Step> {
      ASSIGN_OR_RETURN(const TableSize size, writer_->ReadSize());
      const Upkeep::Plan plan = upkeep_.MakePlan(now, current(), removed_, size);
      if (plan.step == Upkeep::Step::kCompact) {
        RETURN_IF_ERROR(RunCompactionStep(std::min(plan.compact_to, removed_ + kUpkeepStep)));
      }
      if (plan.step == Upkeep::Step::kShrink) RETURN_IF_ERROR(writer_->Shrink(plan.pages));
      if (plan.step == Upkeep::Step::kEnd) RETURN_IF_ERROR(writer_->Checkpoint());
      return plan.step;
    }();
    if (!step.ok()) LOG_WARNING("store: {}", base::ToString(step.status()));
    upkeep_.Finish(now, step.ok() ? *step : Upkeep::Step::kNone);
  }

  // Commits the whole group in one transaction, and returns the result of each write. A write whose
  // condition fails gets its own error. An I/O error fails all writes of the group, because the
  // whole transaction is rolled back. An exception, such as of short memory, ends the process: a
  // caller that survived it would keep the writer's turn for ever, and an open transaction.
  std::vector<StatusOr<Revision>> CommitGroup(const std::vector<Pending>& group) noexcept {
    std::vector<StatusOr<Revision>> results;
    std::vector<Change> changes;
    Status committed = WriteGroup(group, results, changes);
    if (committed.code() == StatusCode::kResourceExhausted && options_.reserve != nullptr &&
        options_.reserve->GiveUp()) {
      committed = WriteGroup(group, results, changes);
    }
    if (!committed.ok()) {
      LOG_ERROR("store: {} writes failed: {}", group.size(), base::ToString(committed));
      return std::vector<StatusOr<Revision>>(group.size(), base::Annotate(committed, "store"));
    }
    if (!changes.empty()) {
      const Revision newest = changes.back().record.revision;
      cache_.UpdateRecords(changes);
      current_ = newest;
      fan_out_.QueueChanges(std::move(changes), newest);
    }
    // Its error is ignored, because a durable write cannot be answered as failed.
    base::FaultPoint<"store.commit.after">().IgnoreError();
    return results;
  }

  static void AnswerGroup(std::vector<Pending>& group, std::vector<StatusOr<Revision>> results) {
    for (size_t i = 0; i < group.size(); ++i) group[i].done(std::move(results[i]));
  }

  // Sets the result of each write, and the changes. After an error nothing is written.
  Status WriteGroup(const std::vector<Pending>& group, std::vector<StatusOr<Revision>>& results,
                    std::vector<Change>& changes) {
    results.clear();
    changes.clear();
    scarce_ = options_.reserve != nullptr && options_.reserve->IsGivenUp();
    const Status committed = [&]() -> Status {
      RETURN_IF_ERROR(writer_->BeginTransaction());
      for (const Pending& pending : group) {
        ASSIGN_OR_RETURN(const std::optional<Record> present, writer_->Find(pending.write.key));
        Status refused = CheckCondition(pending, present);
        if (refused.ok() && scarce_ && !present.has_value()) {
          refused = Error(StatusCode::kResourceExhausted,
                          "nothing new is stored until there is room again: delete what is not "
                          "needed");
        }
        if (!refused.ok()) {
          results.emplace_back(std::move(refused));
          continue;
        }
        ASSIGN_OR_RETURN(const Revision revision, AppendWrite(pending, present, changes));
        results.emplace_back(revision);
      }
      RETURN_IF_ERROR(base::FaultPoint<"store.commit.before">());
      return writer_->CommitTransaction();
    }();
    if (!committed.ok()) writer_->RollBackTransaction();
    return committed;
  }

  static Status CheckCondition(const Pending& pending, const std::optional<Record>& present) {
    const Write& write = pending.write;
    const Revision at = present.has_value() ? present->revision : 0;
    if (at != write.expected) {
      if (write.expected == 0) {
        return Error(StatusCode::kAlreadyExists, "key '{}' already exists", write.key);
      }
      if (at == 0) return Error(StatusCode::kNotFound, "key '{}' does not exist", write.key);
      return Error(StatusCode::kAborted, "key '{}' is at revision {}, not {}", write.key, at,
                   write.expected);
    }
    if (pending.value == nullptr && at == 0)
      return Error(StatusCode::kNotFound, "key '{}' does not exist", write.key);
    return base::OkStatus();
  }

  // Appends one write to the open transaction, and its change to `changes`.
  StatusOr<Revision> AppendWrite(const Pending& pending, const std::optional<Record>& present,
                                 std::vector<Change>& changes) {
    const std::string& key = pending.write.key;
    const Revision at = present.has_value() ? present->revision : 0;
    const bool deleted = pending.value == nullptr;
    auto value = deleted ? present->value : pending.value;
    ASSIGN_OR_RETURN(const Revision revision, writer_->Append(key, at, deleted, *value));
    changes.push_back({.type = deleted   ? Change::Type::kDeleted
                               : at == 0 ? Change::Type::kCreated
                                         : Change::Type::kUpdated,
                       .record = {key, std::move(value), revision},
                       .previous = present.has_value() ? present->value : nullptr});
    return revision;
  }

  Status CompactUpTo(Revision to) {
    while (removed_ < to) RETURN_IF_ERROR(RunCompactionStep(to));
    return base::OkStatus();
  }

  Status RunCompactionStep(Revision to) {
    const Revision from = removed_;
    to = std::min(to, from + kCompactionStep);
    // The bound is raised before rows are removed, so that readers notice the compaction.
    compacted_ = std::max(compacted(), to);
    fan_out_.WaitUntilCaughtUp();
    Status done = writer_->BeginTransaction();
    if (done.ok()) done = writer_->Compact(from, to);
    if (done.ok()) done = base::FaultPoint<"store.compact.before">();
    if (done.ok()) done = writer_->CommitTransaction();
    if (!done.ok()) {
      writer_->RollBackTransaction();
      return base::Annotate(done, "compact the store");
    }
    removed_ = to;
    base::FaultPoint<"store.compact.after">().IgnoreError();
    return base::OkStatus();
  }

  // The revision up to which the history is to be compacted now, so that it keeps near
  // options_.keep_revisions; 0: it is not long enough for a step.
  Revision FindHistoryTarget() const {
    const Revision target = current() - (scarce_ ? kScarceHistory : options_.keep_revisions);
    return target - removed_ < (scarce_ ? kScarceStep : kCompactionStep) ? 0 : target;
  }

  // After each group of writes, compacts one step if the history is long.
  void CompactOldHistory() {
    const Revision target = FindHistoryTarget();
    if (target == 0) return;
    if (const Status done = RunCompactionStep(target); !done.ok()) {
      LOG_WARNING("{}", base::ToString(done));
    }
  }

  const Options options_;
  const base::UniqueFd lock_;
  const std::unique_ptr<RevisionTable> writer_;  // used by the writer alone (writing_)
  RecordCache cache_;
  Upkeep upkeep_;        // used by the writer thread alone
  bool scarce_ = false;  // the reserve is given up; used by the writer alone
  std::atomic<Revision> current_;
  std::atomic<Revision> compacted_;  // readers get nothing up to it
  // The old rows up to it are removed; behind compacted_ during a step and after one that failed.
  // Used by the writer alone.
  Revision removed_;

  base::Mutex readers_mutex_;
  std::vector<std::unique_ptr<RevisionTable>> readers_ ABSL_GUARDED_BY(readers_mutex_);

  base::Mutex mutex_;
  base::CondVar wake_;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<Compaction> compactions_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;                // a thread is the writer
  bool history_is_long_ ABSL_GUARDED_BY(mutex_) = false;        // a step of compaction is due
  bool thread_waits_for_turn_ ABSL_GUARDED_BY(mutex_) = false;  // for upkeep, while others write

  FanOut fan_out_;
  std::jthread thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Store>> Store::Open(const Options& options) {
  ASSIGN_OR_RETURN(base::UniqueFd lock, LockDatabase(options.path));
  if (const std::string mark = RestoringPath(options.path); std::filesystem::exists(mark)) {
    return Error(
        StatusCode::kDataLoss,
        "a restore of '{}' was interrupted; restore it again, or remove '{}' to use the database "
        "as it is",
        options.path, mark);
  }
  RETURN_IF_ERROR(MakeFilesPrivate(options.path));
  RETURN_IF_ERROR(MakeDatabaseFile(options.path));
  ASSIGN_OR_RETURN(auto writer, RevisionTable::OpenWriter(options.path));
  ASSIGN_OR_RETURN(const Revision newest, writer->ReadNewestRevision());
  ASSIGN_OR_RETURN(const Revision compacted, writer->ReadCompactedRevision());
  return std::make_unique<SqliteStore>(options, std::move(lock), std::move(writer), newest,
                                       compacted);
}

}  // namespace berth::store
