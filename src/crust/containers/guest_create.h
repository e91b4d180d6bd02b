// Creates a container in a guest: finds what it needs of the host and of its volumes, gives it to
// the guest, and translates its config.json.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/containers/guest_containers.h"

namespace berth::crust {

// A container that is about to be created in a guest.
struct GuestCreate {
  std::string container;  // its id
  bool terminal = false;
  std::string bundle;  // its folder on the host
  base::Json config;
  std::vector<GuestSource> volumes;  // the mounts of deferred volumes, and where the guest has them
  // The devices of the pod's volumes in block mode.
  std::vector<dev_t> devices;
};

// Returns the host's end of the container's stream. UNIMPLEMENTED, with the pod's field: the
// container needs what a guest does not have. Other errors: see GuestContainers.
base::StatusOr<base::UniqueFd> CreateInGuest(GuestContainers& guest, const GuestCreate& create);

// Lists the devices of the pod's volumes in block mode, by the links that the kubelet made:
// <kubelet>/pods/<pod>/volumeDevices/<plugin>/<volume>.
std::vector<dev_t> ListBlockVolumes(const std::string& kubelet_folder, const std::string& pod);

}  // namespace berth::crust
