#include "controllers/pages.h"

namespace berth::controllers {

using base::Error;
using base::StatusCode;

Pages::Pages(std::string what, std::stop_token stop, Limits limits)
    : what_(std::move(what)),
      stop_(std::move(stop)),
      limits_(limits),
      deadline_(std::chrono::steady_clock::now() + limits.time) {}

base::Status Pages::TurnPage(const std::string& next_token) {
  if (stop_.stop_requested()) return Error(StatusCode::kAborted, "stopped listing {}", what_);
  if (!tokens_.insert(next_token).second) {
    return Error(StatusCode::kInternal, "the driver's pages of {} go in a circle", what_);
  }
  if (tokens_.size() >= limits_.pages) {
    return Error(StatusCode::kInternal, "the driver's pages of {} do not end: {} were read", what_,
                 tokens_.size());
  }
  if (std::chrono::steady_clock::now() >= deadline_) {
    return Error(StatusCode::kInternal, "the driver's pages of {} take longer than {} s", what_,
                 std::chrono::duration_cast<std::chrono::seconds>(limits_.time).count());
  }
  return base::OkStatus();
}

}  // namespace berth::controllers
