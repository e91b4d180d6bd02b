#include "controllers/blockoperator/image_progress.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace berth::controllers::blockoperator {

ImageProgress::ImageProgress(base::EventSink& events, base::ObjectReference object,
                             std::string reason, std::string what, const Times& times)
    : events_(events),
      object_(std::move(object)),
      reason_(std::move(reason)),
      what_(std::move(what)),
      pause_(times.pause),
      next_(std::chrono::steady_clock::now() + times.patience),
      scope_([this](double part) { Report(part); }) {}

void ImageProgress::Report(double part) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + pause_;
  const int percent = static_cast<int>(std::clamp(part, 0.0, 1.0) * 100);
  events_.Record(object_, base::EventType::kNormal, reason_,
                 fmt::format("{}: {} % is done", what_, percent));
}

}  // namespace berth::controllers::blockoperator
