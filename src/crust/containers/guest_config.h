// The config.json of a container that runs in a guest instead of on the host (OCI runtime
// specification). On the host containerd wrote it, for the host's paths, namespaces and devices.
//
//   on the host                               in the guest
//   root                                      the folder that virtiofs shares
//   bind mounts of volumes                    the guest's own mounts of them
//   bind mounts of other files and folders    what virtiofs shares of them
//   network, ipc and uts namespace of the pod those of the guest
//   pid namespace of the pod                  that of the guest, whose pid 1 is berth-guest
//   devices of volumes in block mode          the guest's devices
//   cgroup of the container                   a cgroup in the guest
//   labels of SELinux, containerd's profile   none: the guest is the border
//   of AppArmor, CPUs and NUMA nodes
//
// What a guest cannot do is refused here, before anything is made, in words that a pod's event
// shows: namespaces of the host, user namespaces, devices of the host, hooks, mounts that
// propagate, and profiles that the guest's kernel does not have.
//
// The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::crust {

// A bind mount of the container, and what it shows on the host.
struct HostSource {
  size_t mount = 0;  // its index in the config's "mounts"
  std::string path;
  bool operator==(const HostSource&) const = default;
};

// What stands in the guest for the source of a bind mount.
struct GuestSource {
  size_t mount = 0;
  std::string path;
};

// The numbers of a device in the guest for the one at `path` in the container.
struct GuestDevice {
  std::string path;
  int64_t major = 0;
  int64_t minor = 0;
};

struct GuestPlaces {
  std::string rootfs;
  std::string cgroup;                // the cgroup of the container, from the root of the guest's
  std::vector<GuestSource> sources;  // of all bind mounts
  std::vector<GuestDevice> devices;  // of the volumes in block mode
};

// The bind mounts for whose sources the guest needs a place.
std::vector<HostSource> FindHostSources(const base::Json& config);

// Whether the container's process has a terminal.
bool HasTerminal(const base::Json& config);

// Makes the guest's config of the host's. UNIMPLEMENTED, with the name of the pod's field where
// there is one: the container needs what a guest does not have. INTERNAL: a bind mount has no
// place.
base::StatusOr<base::Json> TranslateForGuest(base::Json config, const GuestPlaces& places);

// The same for the process object of `exec`, which has labels and profiles as well.
base::StatusOr<base::Json> TranslateProcessForGuest(base::Json process);

}  // namespace berth::crust
