#include "controllers/snapshotter/driver_answers.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::controllers::snapshotter {

using std::chrono::milliseconds;

std::string MakeSnapshotName(const std::string& prefix, std::string uid, int length) {
  if (length >= 0) {
    std::erase(uid, '-');
    uid = uid.substr(0, static_cast<size_t>(length));
  }
  return fmt::format("{}-{}", prefix, uid);
}

std::optional<int64_t> ReadNanoseconds(const google::protobuf::Timestamp& time) {
  constexpr int64_t kMaxSeconds = 9'200'000'000;  // in the year 2261
  constexpr int64_t kPerSecond = 1'000'000'000;
  if (time.seconds() < 0 || time.seconds() > kMaxSeconds) return std::nullopt;
  if (time.nanos() < 0 || time.nanos() >= kPerSecond) return std::nullopt;
  return time.seconds() * kPerSecond + time.nanos();
}

int64_t Nanoseconds(base::WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

milliseconds PollDelay(int asked, milliseconds start, milliseconds max) {
  return std::min(start * (1 << std::min(asked, 20)), max);
}

}  // namespace berth::controllers::snapshotter
