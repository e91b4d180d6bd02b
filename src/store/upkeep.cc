#include "store/upkeep.h"

#include <algorithm>

namespace berth::store {
namespace {

// Writes wait for a step, so it has few pages: each is read, and written to the WAL.
constexpr int64_t kStepPages = 16;
// The file keeps so many free pages, and one for every eight used ones, so that it does not shrink
// and grow again under a steady load.
constexpr int64_t kSparePages = 512;
// The time between two steps. Most of it is for writes.
constexpr std::chrono::milliseconds kBreak{10};
constexpr std::chrono::milliseconds kLongestWait = std::chrono::minutes(1);
constexpr int kMarks = 4;  // in keep_history

}  // namespace

Revision Upkeep::FindOldRevision(Time now) {
  const Time limit = now - options_.keep_history;
  while (marks_.size() > 1 && marks_[1].at <= limit) marks_.pop_front();
  return !marks_.empty() && marks_.front().at <= limit ? marks_.front().newest : 0;
}

Upkeep::Plan Upkeep::MakePlan(Time now, Revision current, Revision removed, const TableSize& size) {
  if (marks_.empty() || now - marks_.back().at >= options_.keep_history / kMarks) {
    marks_.push_back({.at = now, .newest = current});
  }
  const Revision old = FindOldRevision(now);
  if (size.pages * size.page_bytes > options_.small_file && old > removed) {
    return {.step = Step::kCompact, .compact_to = old};
  }
  const int64_t spare = kSparePages + (size.pages - size.free_pages) / 8;
  if (size.can_shrink && size.free_pages >= spare + kStepPages) {
    return {.step = Step::kShrink, .pages = kStepPages};
  }
  return {.step = working_ ? Step::kEnd : Step::kNone};
}

void Upkeep::Finish(Time now, Step step) {
  working_ = step == Step::kCompact || step == Step::kShrink;
  const std::chrono::milliseconds wait = std::min(options_.keep_history / kMarks, kLongestWait);
  next_ = now + (working_ ? kBreak : wait);
}

}  // namespace berth::store
