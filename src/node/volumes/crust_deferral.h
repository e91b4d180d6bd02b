// Decides for each volume of a pod whether the runtime handler of the pod's sandbox mounts it. Asks
// the handler for its capabilities, and tells the pod the decision (KEP-2857).
//
// For a pod without a RuntimeClass it asks nobody. If the handler does not answer, the call fails
// and is tried again; the volume is never mounted on the host for that reason. Thread-safe; blocks,
// with deadlines.
#pragma once

#include <string>
#include <vector>

#include "base/event_sink.h"
#include "base/status.h"
#include "node/volumes/crust_decision.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// The handler that is to mount, and what it mounts.
struct HandlerChoice {
  std::string socket;  // empty: the host mounts
  std::vector<std::string> file_systems;
};

class CrustDeferral {
 public:
  // Borrowed. `refuse_shared_writers`: VolumeManagerOptions::refuse_shared_sandbox_writers.
  CrustDeferral(volume::Host& host, base::EventSink& events, bool refuse_shared_writers)
      : host_(host), events_(events), refuse_shared_writers_(refuse_shared_writers) {}

  // `names`: the pod's of the volume.
  base::StatusOr<HandlerChoice> Choose(const api::Pod& pod, const std::vector<std::string>& names,
                                       volume::VolumePlugin& plugin,
                                       const volume::VolumeSpec& spec);
  // The driver has left the mount to the handler, or (nullptr) mounted it all the same.
  // FAILED_PRECONDITION: a claim of that access mode is not for writers in sandboxes.
  base::Status Chosen(const api::Pod& pod, const std::vector<std::string>& names,
                      const volume::VolumeSpec& spec, const HandlerChoice& choice,
                      const volume::DeferredMount* mount);

 private:
  base::StatusOr<std::string> SocketOf(const std::string& class_name);
  base::StatusOr<base::Json> ClassOf(const volume::VolumeSpec& spec);
  void ReportHostMount(const api::Pod& pod, const volume::VolumeSpec& spec,
                       std::string_view why_not);

  volume::Host& host_;
  base::EventSink& events_;
  const bool refuse_shared_writers_;
};

}  // namespace berth::node
