// Makes sure that a container's image is present, by its pull policy.
//
//   EnsureImage ─▶ present ─▶ kReady
//      └─────────▶ pull (in the background; `on_change` when it ended) ─▶ kReady
//                      └────▶ failed ─▶ back-off 10 s, doubling to 5 min ─▶ pull …
//
// EnsureImage waits only for the runtime's answer whether the image is present, because pulls run
// in the background. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "node/containers/container_env.h"
#include "node/containers/pod_tasks.h"
#include "rpc/cri_client.h"

namespace berth::node {

class ImagePuller {
 public:
  struct Result {
    enum class State { kReady, kPulling, kFailed };
    State state = State::kPulling;
    rpc::cri::Image image;  // kReady
    std::string reason;     // kFailed: "ErrImagePull", "ImagePullBackOff", ...
    std::string message;
    std::chrono::milliseconds retry_after{0};  // kFailed: call EnsureImage again after this time
  };
  using OnChange = std::function<void(const std::string& pod_uid)>;

  // All borrowed.
  ImagePuller(rpc::CriClient& cri, PodTasks& tasks, base::EventSink& events,
              const base::Clock& clock, ObjectReader reader, OnChange on_change);

  // Call it for the start number `restart_count` of a container until it returns kReady. kPulling:
  // `on_change` is called when the pull has ended. The policy Always pulls once for each start.
  Result EnsureImage(const api::Pod& pod, const api::Container& container, uint32_t restart_count);

  // Begins the pull that EnsureImage would begin for start 0. Reports no event if the image is
  // present.
  void PrefetchImage(const api::Pod& pod, const api::Container& container);

  // Drops the entries of a pod that is gone.
  void ForgetPod(const std::string& pod_uid);

 private:
  struct Entry {
    bool pulling = false;
    bool pulled = false;  // for `restart_count`
    uint32_t restart_count = 0;
    base::Status error;  // of the last pull
    std::chrono::milliseconds backoff{0};
    base::WallTime failed_at;
    bool backoff_reported = false;
  };

  void StartPull(const api::Pod& pod, const api::Container& container, const std::string& key);
  void FinishPull(const std::string& key, const base::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  base::StatusOr<rpc::cri::Image> FindImage(const std::string& image);

  rpc::CriClient& cri_;
  PodTasks& tasks_;
  base::EventSink& events_;
  const base::Clock& clock_;
  const ObjectReader reader_;
  const OnChange on_change_;
  base::Mutex mutex_;
  // By "<pod uid>/<container>".
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// imagePullPolicy, or its default: Always for the tag "latest" and for an image without a tag or
// digest, else IfNotPresent.
std::string PullPolicy(const api::Container& container);

}  // namespace berth::node
