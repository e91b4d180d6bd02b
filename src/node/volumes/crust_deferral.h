// Decides for each volume of a pod whether the runtime handler of the pod's sandbox mounts it. Asks
// the handler for its capabilities, and reports the decision to the pod in an event (KEP-2857).
//
// For a pod without a RuntimeClass no handler is asked. If the handler does not answer, the call
// fails and is tried again; that is no reason to mount the volume on the host. Thread-safe; blocks,
// with deadlines.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kind_info.h"
#include "base/event_sink.h"
#include "base/status.h"
#include "node/volumes/crust_decision.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// The handler that mounts the volume, and the types of file systems that it can mount.
struct HandlerChoice {
  std::string socket;  // empty: the host mounts
  std::vector<std::string> file_systems;
};

// The request by which a handler mounts a volume that was left to it. `target` is where the host
// would mount it. The caller adds the sandbox or the pod.
crust_api::RuntimePublishVolumeRequest MakePublishRequest(const volume::DeferredMount& mount,
                                                          const std::string& target,
                                                          bool read_only);

class CrustDeferral {
 public:
  // Reads an object of the API, as volume::Host::GetObject.
  using GetObject = std::function<base::StatusOr<base::Json>(
      const api::KindInfo& kind, std::string_view ns, std::string_view name)>;
  // Whether the volume's driver can leave the mount to a handler (VolumePlugin::CanDefer).
  using CanDefer = std::function<base::StatusOr<volume::VolumePlugin::Deferral>()>;

  struct Options {
    bool refuse_shared_writers = false;  // VolumeManagerOptions::refuse_shared_sandbox_writers
    // The handler must take a volume before the pod has a sandbox (capability POD_VOLUMES).
    bool before_sandbox = false;
  };
  // `events` is borrowed.
  CrustDeferral(GetObject get_object, base::EventSink& events, const Options& options)
      : get_object_(std::move(get_object)), events_(events), options_(options) {}

  // FAILED_PRECONDITION: the pod's RuntimeClass does not allow an access mode of the volume's claim
  // (api::FindAllowedModes). Berth's API refuses such a pod at its creation, if the claim is there.
  base::Status CheckAccessModes(const api::Pod& pod, const volume::VolumeSpec& spec);
  // `names` are the volume's names in pod.spec.volumes. Errors come from the API, `can_defer` and
  // the handler.
  base::StatusOr<HandlerChoice> ChooseHandler(const api::Pod& pod,
                                              const std::vector<std::string>& names,
                                              const volume::VolumeSpec& spec,
                                              const CanDefer& can_defer);
  // Reports what the driver did after ChooseHandler named a handler: it left `mount` to the
  // handler, or (nullptr) mounted the volume itself. FAILED_PRECONDITION: another pod could mount
  // the volume for writing, and that is refused.
  base::Status ReportChoice(const api::Pod& pod, const std::vector<std::string>& names,
                            const volume::VolumeSpec& spec, const HandlerChoice& choice,
                            const volume::DeferredMount* mount);
  // Tells the pod that the host mounts the volume, and why.
  void ReportHostMount(const api::Pod& pod, const volume::VolumeSpec& spec,
                       std::string_view why_not);

 private:
  base::StatusOr<base::Json> ReadRuntimeClass(const api::Pod& pod);
  base::StatusOr<base::Json> ReadStorageClass(const volume::VolumeSpec& spec);

  const GetObject get_object_;
  base::EventSink& events_;
  const Options options_;
};

}  // namespace berth::node
