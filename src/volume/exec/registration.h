// Which pod runs the utilities of a plugin: the registration file that the pod put into the kubelet
// folder (`<kubelet>/plugin-containers/kubernetes.io~glusterfs.json`).
//
// Read anew at every run; nothing is kept. Whoever writes the file has root run a program of his
// choice, so that one which root did not write is refused, as is what cannot be understood: falling
// back to the host would run another tool than the administrator chose.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "volume/paths.h"

namespace berth::volume {

struct Registration {
  std::string pod_namespace;
  std::string pod_name;
  std::string pod_uid;
  std::string container;
  bool operator==(const Registration&) const = default;
};

// None where no pod is registered. FAILED_PRECONDITION: there is a file that is no registration;
// the message names it and what is wrong with it. Folder and file must be of user `owner`.
base::StatusOr<std::optional<Registration>> ReadRegistration(const Paths& paths,
                                                             std::string_view plugin,
                                                             uid_t owner = 0);

}  // namespace berth::volume
