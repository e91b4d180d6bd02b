// `berth mount` and `berth umount`: a claim on a path of the host, by a HostMount object.
#pragma once

#include <chrono>
#include <string>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct MountOptions {
  std::string claim;
  std::string path;       // made absolute
  std::string node_name;  // empty: the only node, or the one that is called as this host
  bool read_only = false;
  std::chrono::seconds timeout{120};
};

// Creates the HostMount and waits until it is mounted. DEADLINE_EXCEEDED says what it waits for,
// and leaves the object: the mount is made when that comes.
Status Mount(kube::Client& client, const ApiOptions& api, const MountOptions& options,
             std::stop_token stop);

// Deletes the HostMount of a path and waits until it is unmounted.
Status Umount(kube::Client& client, const ApiOptions& api, const std::string& path,
              std::chrono::seconds timeout, std::stop_token stop);

}  // namespace berth::cli
