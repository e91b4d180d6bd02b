#include "node/containers/image_puller.h"

#include "node/containers/image_auth.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::EventType;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

constexpr milliseconds kStatusTimeout{120'000};
constexpr milliseconds kPullTimeout{3'600'000};
constexpr milliseconds kBackoffFirst{10'000};
constexpr milliseconds kBackoffMax{300'000};

ImagePuller::Result MakeFailure(std::string reason, std::string message, milliseconds retry_after) {
  return {.state = ImagePuller::Result::State::kFailed,
          .image = {},
          .reason = std::move(reason),
          .message = std::move(message),
          .retry_after = retry_after};
}

}  // namespace

std::string PullPolicy(const api::Container& container) {
  const std::string policy = container.image_pull_policy();
  if (!policy.empty()) return policy;
  const std::string image = container.image();
  if (image.find('@') != std::string::npos) return "IfNotPresent";
  const size_t colon = image.rfind(':');
  const size_t slash = image.rfind('/');
  const bool tagged = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  return !tagged || image.substr(colon) == ":latest" ? "Always" : "IfNotPresent";
}

ImagePuller::ImagePuller(rpc::CriClient& cri, PodTasks& tasks, base::EventSink& events,
                         const base::Clock& clock, ObjectReader reader, OnChange on_change)
    : cri_(cri),
      tasks_(tasks),
      events_(events),
      clock_(clock),
      reader_(std::move(reader)),
      on_change_(std::move(on_change)) {}

StatusOr<cri::Image> ImagePuller::FindImage(const std::string& image) {
  cri::ImageStatusRequest request;
  request.mutable_image()->set_image(image);
  ASSIGN_OR_RETURN(auto response, cri_.ImageStatus(request, kStatusTimeout));
  if (!response.has_image() || response.image().id().empty()) {
    return base::Error(StatusCode::kNotFound, "image \"{}\" is not present", image);
  }
  return std::move(*response.mutable_image());
}

ImagePuller::Result ImagePuller::EnsureImage(const api::Pod& pod, const api::Container& container,
                                             uint32_t restart_count) {
  const std::string key = fmt::format("{}/{}", pod.uid(), container.name());
  const std::string policy = PullPolicy(container);
  bool pulled = false;
  {
    base::MutexLock lock(mutex_);
    Entry& entry = entries_[key];
    if (entry.pulling) return {};
    if (entry.restart_count != restart_count) entry.pulled = false;
    entry.restart_count = restart_count;
    pulled = entry.pulled;
  }
  if (policy != "Always" || pulled) {
    auto found = FindImage(container.image());
    if (found.ok()) {
      if (!pulled) {
        events_.Record(
            pod.reference(), EventType::kNormal, "Pulled",
            fmt::format("Container image \"{}\" already present on machine", container.image()));
      }
      return {.state = Result::State::kReady,
              .image = *std::move(found),
              .reason = "",
              .message = "",
              .retry_after = {}};
    }
    if (found.status().code() != StatusCode::kNotFound) {
      return MakeFailure("ImageInspectError",
                         fmt::format("Failed to inspect image \"{}\": {}", container.image(),
                                     base::ToString(found.status())),
                         kBackoffFirst);
    }
    if (policy == "Never") {
      const std::string message = fmt::format(
          "Container image \"{}\" is not present with pull policy of Never", container.image());
      events_.Record(pod.reference(), EventType::kWarning, "ErrImageNeverPull", message);
      return MakeFailure("ErrImageNeverPull", message, kBackoffFirst);
    }
  }

  bool report_backoff = false;
  Result failed;
  {
    base::MutexLock lock(mutex_);
    Entry& entry = entries_[key];
    const auto waited = std::chrono::duration_cast<milliseconds>(clock_.Now() - entry.failed_at);
    if (!entry.error.ok() && waited < entry.backoff) {
      failed = MakeFailure("ImagePullBackOff",
                           fmt::format("Back-off pulling image \"{}\": {}", container.image(),
                                       base::Message(entry.error)),
                           entry.backoff - waited);
      report_backoff = !std::exchange(entry.backoff_reported, true);
    } else {
      entry.pulling = true;
    }
  }
  if (failed.state == Result::State::kFailed) {
    if (report_backoff) {
      events_.Record(pod.reference(), EventType::kNormal, "BackOff",
                     fmt::format("Back-off pulling image \"{}\"", container.image()));
    }
    return failed;
  }
  StartPull(pod, container, key);
  return {};
}

void ImagePuller::PrefetchImage(const api::Pod& pod, const api::Container& container) {
  const std::string policy = PullPolicy(container);
  if (policy == "Never") return;
  if (policy != "Always" && FindImage(container.image()).status().code() != StatusCode::kNotFound)
    return;
  EnsureImage(pod, container, 0);
}

void ImagePuller::StartPull(const api::Pod& pod, const api::Container& container,
                            const std::string& key) {
  const std::string image = container.image();
  const auto reference = pod.reference();
  events_.Record(reference, EventType::kNormal, "Pulling",
                 fmt::format("Pulling image \"{}\"", image));
  const bool started =
      tasks_.RunTask("pull/" + key, pod.ns(), [this, pod, image, key, reference](std::stop_token) {
        cri::PullImageRequest request;
        request.mutable_image()->set_image(image);
        if (auto auth = FindPullCredentials(pod, image, reader_); auth.has_value()) {
          *request.mutable_auth() = *std::move(auth);
        }
        const auto began = std::chrono::steady_clock::now();
        const auto pulled = cri_.PullImage(request, kPullTimeout);
        const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began);
        if (pulled.ok()) {
          events_.Record(
              reference, EventType::kNormal, "Pulled",
              fmt::format("Successfully pulled image \"{}\" in {:.3f}s", image, took.count()));
        } else {
          events_.Record(reference, EventType::kWarning, "Failed",
                         fmt::format("Failed to pull image \"{}\": {}", image,
                                     base::ToString(pulled.status())));
        }
        FinishPull(key, base::AsStatus(pulled));
        on_change_(reference.uid);
      });
  if (!started) FinishPull(key, base::Error(StatusCode::kUnavailable, "the node agent stops"));
}

void ImagePuller::FinishPull(const std::string& key, const Status& status) {
  base::MutexLock lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;  // the pod went meanwhile
  Entry& entry = it->second;
  entry.pulling = false;
  entry.error = status;
  entry.backoff_reported = false;
  if (status.ok()) {
    entry.pulled = true;
    entry.backoff = milliseconds(0);
  } else {
    entry.failed_at = clock_.Now();
    entry.backoff = std::clamp(entry.backoff * 2, kBackoffFirst, kBackoffMax);
  }
}

void ImagePuller::ForgetPod(const std::string& pod_uid) {
  base::MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const auto& e) { return e.first.starts_with(pod_uid + "/"); });
}

}  // namespace berth::node
