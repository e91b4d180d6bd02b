// Chooses the container that runs a plugin's utilities now. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rpc/cri_client.h"
#include "volume/exec/pod_container.h"
#include "volume/paths.h"

namespace berth::volume {

class ContainerChoice {
 public:
  // All borrowed. Events are about `node`. Registrations are of user `owner`.
  ContainerChoice(rpc::CriClient& runtime, const Paths& paths, base::EventSink& events,
                  base::ObjectReference node, uid_t owner = 0)
      : runtime_(runtime), paths_(paths), events_(events), node_(std::move(node)), owner_(owner) {}

  // None: run on the host. FAILED_PRECONDITION: the registration is refused; an event says so once,
  // until the fault is another one. Any other failure is the runtime's, and nothing was run.
  //
  // The registration is read each time. The runtime is asked only about a pod that is not the one
  // of the last answer: that container may have ended, but never becomes another one. A run in it
  // shows that it ended (ContainerExec); then the caller calls Ended and asks again.
  base::StatusOr<std::optional<PodContainer>> Now(std::string_view plugin);
  void Ended(std::string_view plugin, const PodContainer& container);

  // How often to ask before giving up: for the last answer, for what runs in its place, and for
  // what runs in place of that.
  static constexpr int kLooks = 3;

 private:
  // Whether this differs from what was last reported about the plugin; "" means no fault.
  bool IsNews(std::string_view plugin, std::string_view fault);

  rpc::CriClient& runtime_;
  const Paths& paths_;
  base::EventSink& events_;
  const base::ObjectReference node_;
  const uid_t owner_;
  base::Mutex mutex_;
  // By plugin.
  std::map<std::string, std::string, std::less<>> told_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, PodContainer, std::less<>> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
