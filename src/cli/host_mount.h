// `berth mount` and `berth umount`: mount a claim at a path of the host, by means of a HostMount
// object.
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

// Creates the HostMount and waits until it is mounted. DEADLINE_EXCEEDED says what it waits for.
// The object then stays, so that the mount is made as soon as that is there.
Status Mount(kube::Client& client, const ApiOptions& api, const MountOptions& options,
             std::stop_token stop);

// Deletes the HostMount of a path and waits until it is unmounted.
Status Umount(kube::Client& client, const ApiOptions& api, const std::string& path,
              std::chrono::seconds timeout, std::stop_token stop);

}  // namespace berth::cli
