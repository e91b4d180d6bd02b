// The running container of a registered pod, as the container runtime knows it. Thread-safe.
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

// None: exactly that pod (by its UID) has no running container of that name. UNAVAILABLE and other
// errors: the runtime does not answer, so this is not known.
base::StatusOr<std::optional<PodContainer>> FindContainer(rpc::CriClient& runtime,
                                                          const Registration& registration);

// Whether the container with this id runs still.
base::StatusOr<bool> IsRunning(rpc::CriClient& runtime, const std::string& id);

}  // namespace berth::volume
