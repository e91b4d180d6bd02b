// Reads which pod runs the utilities of a plugin, from the registration file that the pod wrote
// into the kubelet folder (`<kubelet>/plugin-containers/kubernetes.io~glusterfs.json`).
//
// The file is read at every run, and its content is not kept. The author of the file decides which
// program root runs, so a file that does not belong to root is refused. A file that cannot be
// parsed is refused, too, because the administrator did not choose the host's utility.
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

// nullopt: no pod is registered. FAILED_PRECONDITION: the file is no valid registration; the
// message names it and its fault. The folder and the file must belong to user `owner`, and no other
// user may write them.
base::StatusOr<std::optional<Registration>> ReadRegistration(const Paths& paths,
                                                             std::string_view plugin,
                                                             uid_t owner = 0);

}  // namespace berth::volume
