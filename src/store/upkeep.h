// Decides how the writer thread makes the database file smaller, in short steps between writes.
//
// A file of deleted objects is large for two reasons: history, whose rows are compacted when they
// are old, and free pages, which are taken out of the file.
//
//   wait ──▶ kCompact ... ──▶ kShrink ... ──▶ kEnd ──▶ wait
//
// The caller gives the time. Not thread-safe.
#pragma once

#include <chrono>
#include <deque>

#include "store/revision_table.h"
#include "store/store.h"

namespace berth::store {

class Upkeep {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Step {
    kNone,     // nothing is to be done for a while
    kCompact,  // compact the history up to `compact_to`, one step of it
    kShrink,   // take `pages` free pages out of the file
    kEnd,      // the last step was made: write the WAL back, which shortens the file
  };
  struct Plan {
    Step step = Step::kNone;
    Revision compact_to = 0;
    int64_t pages = 0;
  };

  explicit Upkeep(const UpkeepOptions& options) : options_(options) {}

  // When MakePlan is due.
  Time next() const { return next_; }
  // `removed`: the history up to it is compacted.
  Plan MakePlan(Time now, Revision current, Revision removed, const TableSize& size);
  // Says that the step was made, or that it failed (kNone), and sets next().
  void Finish(Time now, Step step);

 private:
  // The newest revision that is known to be older than keep_history; 0: none.
  Revision FindOldRevision(Time now);

  struct Mark {
    Time at;
    Revision newest;
  };

  const UpkeepOptions options_;
  std::deque<Mark> marks_;  // in order of time
  bool working_ = false;    // a step was made after the last kEnd
  Time next_{};
};

}  // namespace berth::store
