#include "node/containers/container_backoff.h"

#include <algorithm>

namespace berth::node {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr nanoseconds kFirst = seconds(10);
constexpr nanoseconds kMax = seconds(300);

}  // namespace

bool CrashBackoff::IsExpired(const Entry& entry, int64_t exit) {
  return nanoseconds(exit - entry.updated) > 2 * kMax;
}

milliseconds CrashBackoff::TimeLeft(const std::string& container, int64_t exit, int64_t now) const {
  const auto it = entries_.find(container);
  if (exit <= 0 || it == entries_.end() || IsExpired(it->second, exit)) return milliseconds(0);
  // The wait is never longer than the delay, even if the clock was set back.
  const nanoseconds left = std::min(nanoseconds(exit - now) + it->second.delay, it->second.delay);
  return left.count() <= 0 ? milliseconds(0) : std::chrono::ceil<milliseconds>(left);
}

seconds CrashBackoff::FullDelay(const std::string& container) const {
  const auto it = entries_.find(container);
  return it == entries_.end() ? seconds(0) : std::chrono::duration_cast<seconds>(it->second.delay);
}

void CrashBackoff::NoteStart(const std::string& container, int64_t exit, int64_t now) {
  if (exit <= 0) return;
  Entry& entry = entries_[container];
  entry.delay =
      entry.updated == 0 || IsExpired(entry, exit) ? kFirst : std::min(entry.delay * 2, kMax);
  entry.updated = now;
}

}  // namespace berth::node
