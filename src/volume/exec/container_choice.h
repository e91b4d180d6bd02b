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
  // `runtime`, `paths` and `events` are borrowed. Events are about `node`. Registrations must
  // belong to user `owner`.
  ContainerChoice(rpc::CriClient& runtime, const Paths& paths, base::EventSink& events,
                  base::ObjectReference node, uid_t owner = 0)
      : runtime_(runtime), paths_(paths), events_(events), node_(std::move(node)), owner_(owner) {}

  // Returns the container in which to run a utility now. nullopt: run it on the host.
  // FAILED_PRECONDITION: the registration is refused; an event reports each fault once. Any other
  // failure is the runtime's, and nothing was run.
  //
  // The registration is read each time. The runtime is asked only about a pod that is not the one
  // of the last answer: that container may have ended, but never becomes another one. A run in it
  // shows that it ended (ContainerExec); then the caller calls NoteEnded and asks again.
  base::StatusOr<std::optional<PodContainer>> ChooseContainer(std::string_view plugin);
  void NoteEnded(std::string_view plugin, const PodContainer& container);

  // How often a caller chooses a container for one run: the first may have ended already, and the
  // next may end before the run begins.
  static constexpr int kMaxAttempts = 3;

 private:
  // Whether `fault` differs from the last fault of the plugin; "" means no fault. Keeps it as the
  // last one.
  bool IsNewFault(std::string_view plugin, std::string_view fault);

  rpc::CriClient& runtime_;
  const Paths& paths_;
  base::EventSink& events_;
  const base::ObjectReference node_;
  const uid_t owner_;
  base::Mutex mutex_;
  // By plugin.
  std::map<std::string, std::string, std::less<>> reported_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, PodContainer, std::less<>> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
