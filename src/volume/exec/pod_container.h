// Finds the running container of a registered pod by the container runtime. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "rpc/cri_client.h"
#include "volume/exec/registration.h"

namespace berth::volume {

struct PodContainer {
  Registration registration;
  std::string id;  // of the container

  // "container 'gluster' of pod kube-system/gluster-x7", for messages.
  std::string Describe() const;
};

// nullopt: the pod with this UID has no running container of that name. UNAVAILABLE and other
// errors: not known, because the runtime does not answer.
base::StatusOr<std::optional<PodContainer>> FindContainer(rpc::CriClient& runtime,
                                                          const Registration& registration);

// Whether the container with this id still runs. Errors are the runtime's.
base::StatusOr<bool> IsRunning(rpc::CriClient& runtime, const std::string& id);

}  // namespace berth::volume
