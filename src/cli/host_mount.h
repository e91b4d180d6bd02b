// `berth mount` and `berth umount`: mount a claim at a path of the host with a HostMount object,
// and unmount it.
#pragma once

#include <chrono>
#include <string>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct MountOptions {
  std::string claim;
  std::string path;       // made absolute
  std::string node_name;  // empty: the only node, or the one with this host's name
  bool read_only = false;
  std::chrono::seconds timeout{120};
};

// Creates the HostMount and waits until it is mounted. If one of this path is being deleted, waits
// first until it is gone. ALREADY_EXISTS: another claim, or the claim
// in another mode, is mounted there. FAILED_PRECONDITION: options.node_name is empty, and no node
// has this host's name. DEADLINE_EXCEEDED: the mount was not made in time, and the message says
// why; the object stays, so that the mount is made later. Other errors come from the API.
Status MountClaim(kube::Client& client, const ApiOptions& api, const MountOptions& options,
                  std::stop_token stop);

struct UnmountOptions {
  std::string path;       // made absolute
  std::string node_name;  // as in MountOptions
  std::chrono::seconds timeout{120};
};

// Deletes the HostMount of a node's path and waits until it is unmounted. NOT_FOUND: no HostMount
// of the node has this path. FAILED_PRECONDITION: as MountClaim. DEADLINE_EXCEEDED: it is still
// mounted.
Status UnmountClaim(kube::Client& client, const UnmountOptions& options, std::stop_token stop);

}  // namespace berth::cli
