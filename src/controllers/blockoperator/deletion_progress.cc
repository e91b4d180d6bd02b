#include "controllers/blockoperator/deletion_progress.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace berth::controllers::blockoperator {

DeletionProgress::DeletionProgress(base::EventSink& events, base::ObjectReference volume,
                                   std::string image, const Times& times)
    : events_(events),
      volume_(std::move(volume)),
      image_(std::move(image)),
      pause_(times.pause),
      next_(std::chrono::steady_clock::now() + times.patience) {}

void DeletionProgress::Report(double part) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + pause_;
  const int percent = static_cast<int>(std::clamp(part, 0.0, 1.0) * 100);
  events_.Record(volume_, base::EventType::kNormal, kVolumeDeleting,
                 fmt::format("image '{}' is being deleted: {} % is done", image_, percent));
}

}  // namespace berth::controllers::blockoperator
