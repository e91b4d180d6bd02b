// Which pod runs the utilities of a plugin: the registration file that the pod wrote into the
// kubelet folder (`<kubelet>/plugin-containers/kubernetes.io~glusterfs.json`).
//
// It is read again at every run; nothing is kept. The author of the file decides which program root
// runs, so a file that root did not write is refused. So is a file that cannot be understood,
// because the host's tool is not the one that the administrator chose.
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

// None: no pod is registered. FAILED_PRECONDITION: the file is no valid registration; the message
// names it and its fault. Folder and file must belong to user `owner`.
base::StatusOr<std::optional<Registration>> ReadRegistration(const Paths& paths,
                                                             std::string_view plugin,
                                                             uid_t owner = 0);

}  // namespace berth::volume
