#include "cli/wait.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace berth::cli {
namespace {

using base::Status;
using base::StatusCode;

constexpr std::chrono::milliseconds kRetryPause(500);

// Requests a stop after `timeout`, or when a stop of `outer` is requested.
class Deadline {
 public:
  Deadline(std::chrono::milliseconds timeout, const std::stop_token& outer)
      : forward_(outer, [this] { source_.request_stop(); }),
        timer_([this, timeout](const std::stop_token& destroyed) {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, destroyed, timeout,
                                 [&] { return destroyed.stop_requested(); }) &&
              !destroyed.stop_requested()) {
            source_.request_stop();
          }
        }) {}

  std::stop_token token() const { return source_.get_token(); }

  // Waits before the next call of an API that is unavailable, so that it is not called in a loop.
  void PauseAfter(const Status& status) {
    if (status.code() != StatusCode::kUnavailable) return;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, source_.get_token(), kRetryPause, [] { return false; });
  }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread timer_;
};

// True if the wait can continue after this result, because the next list and watch may succeed.
bool IsRetryable(const Status& status) {
  return status.ok() || status.code() == StatusCode::kOutOfRange ||
         status.code() == StatusCode::kUnavailable;
}

}  // namespace

Status WaitFor(kube::Client& client, const api::KindInfo& kind, const std::string& ns,
               const std::string& name, std::chrono::milliseconds timeout, std::stop_token stop,
               const std::function<bool(const std::optional<api::Object>&)>& done) {
  Deadline deadline(timeout, stop);
  bool listed = false;
  const kube::ListOptions only{.field_selector = fmt::format("metadata.name={}", name)};
  while (!deadline.token().stop_requested()) {
    base::StatusOr<kube::ListResult> list = client.List(kind, ns, only);
    if (!list.ok()) {
      // Without an answer so far, the caller learns at once that there is no API.
      if (!listed || !IsRetryable(list.status())) return list.status();
      deadline.PauseAfter(list.status());
      continue;
    }
    listed = true;
    std::optional<api::Object> object;
    if (!list->items.empty()) object.emplace(std::move(list->items[0]));
    if (done(object)) return base::OkStatus();
    kube::ListOptions from = only;
    from.resource_version = list->resource_version;
    bool finished = false;
    const Status watched =
        client.Watch(kind, ns, from, deadline.token(), [&](kube::WatchEvent event) {
          if (event.type == kube::WatchEvent::Type::kBookmark) return true;
          std::optional<api::Object> now;
          if (event.type != kube::WatchEvent::Type::kDeleted) now.emplace(std::move(event.object));
          finished = done(now);
          return !finished;
        });
    if (finished) return base::OkStatus();
    if (!IsRetryable(watched) && !deadline.token().stop_requested()) return watched;
    deadline.PauseAfter(watched);
  }
  if (stop.stop_requested()) return base::Error(StatusCode::kCancelled, "interrupted");
  return base::Error(StatusCode::kDeadlineExceeded, "timed out waiting for {} '{}'", kind.singular,
                     name);
}

Status WaitForChange(kube::Client& client, const api::KindInfo& kind,
                     const kube::ListOptions& which, std::chrono::milliseconds timeout,
                     std::stop_token stop, const std::function<bool()>& done) {
  Deadline deadline(timeout, stop);
  while (!deadline.token().stop_requested()) {
    // The list comes before the call of `done`, so that the watch reports every change that `done`
    // has not seen.
    const auto list = client.List(kind, "", which);
    if (!list.ok() && !IsRetryable(list.status())) return list.status();
    if (done()) return base::OkStatus();
    if (!list.ok()) {
      deadline.PauseAfter(list.status());
      continue;
    }
    kube::ListOptions from = which;
    from.resource_version = list->resource_version;
    bool finished = false;
    const Status watched =
        client.Watch(kind, "", from, deadline.token(), [&](const kube::WatchEvent& event) {
          finished = event.type != kube::WatchEvent::Type::kBookmark && done();
          return !finished;
        });
    if (finished) return base::OkStatus();
    if (!IsRetryable(watched) && !deadline.token().stop_requested()) return watched;
    deadline.PauseAfter(watched);
  }
  if (stop.stop_requested()) return base::Error(StatusCode::kCancelled, "interrupted");
  return base::Error(StatusCode::kDeadlineExceeded, "timed out waiting for {}", kind.plural);
}

}  // namespace berth::cli
