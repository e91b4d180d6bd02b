// Decides for each volume of a pod whether the runtime handler of the pod's sandbox mounts it. Asks
// the handler for its capabilities, and reports the decision to the pod in an event (KEP-2857).
//
// For a pod without a RuntimeClass no handler is asked. If the handler does not answer, the call
// fails and is tried again; that is no reason to mount the volume on the host. Thread-safe; blocks,
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

// The handler that mounts the volume, and the types of file systems that it can mount.
struct HandlerChoice {
  std::string socket;  // empty: the host mounts
  std::vector<std::string> file_systems;
};

class CrustDeferral {
 public:
  // The references are borrowed. `refuse_shared_writers` is
  // VolumeManagerOptions::refuse_shared_sandbox_writers.
  CrustDeferral(volume::Host& host, base::EventSink& events, bool refuse_shared_writers)
      : host_(host), events_(events), refuse_shared_writers_(refuse_shared_writers) {}

  // `names` are the volume's names in pod.spec.volumes. Errors come from the API, the plugin and
  // the handler.
  base::StatusOr<HandlerChoice> ChooseHandler(const api::Pod& pod,
                                              const std::vector<std::string>& names,
                                              volume::VolumePlugin& plugin,
                                              const volume::VolumeSpec& spec);
  // Reports what the driver did after ChooseHandler named a handler: it left `mount` to the
  // handler, or (nullptr) mounted the volume itself. FAILED_PRECONDITION: another pod could mount
  // the volume for writing, and that is refused.
  base::Status ReportChoice(const api::Pod& pod, const std::vector<std::string>& names,
                            const volume::VolumeSpec& spec, const HandlerChoice& choice,
                            const volume::DeferredMount* mount);

 private:
  base::StatusOr<std::string> ReadHandlerSocket(const std::string& class_name);
  base::StatusOr<base::Json> ReadStorageClass(const volume::VolumeSpec& spec);
  void ReportHostMount(const api::Pod& pod, const volume::VolumeSpec& spec,
                       std::string_view why_not);

  volume::Host& host_;
  base::EventSink& events_;
  const bool refuse_shared_writers_;
};

}  // namespace berth::node
