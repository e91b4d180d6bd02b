// Which Ceph cluster, and as whom: the member `cluster` of each request to berth-rbd.
//
//   {"monitors": ["10.0.0.1:6789", "[v2:10.0.0.1:3300,v1:10.0.0.1:6789]"], "pool": "berth",
//    "namespace": "", "user": "berth", "key": "AQ..."}
//
// The key is a secret: it is in no message and no log line.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::rbd {

struct ClusterSettings {
  std::vector<std::string> monitors;  // 1 to kMostMonitors
  std::string pool;
  std::string pool_namespace;  // "": the pool's own
  std::string user;            // without "client."
  std::string key;             // base64, as `ceph auth get-key` prints it
};

inline constexpr size_t kMostMonitors = 32;
// Longer names of pools, namespaces and users are refused. Ceph itself has no such bound.
inline constexpr size_t kLongestName = 128;

// INVALID_ARGUMENT names the member that is wrong, and never quotes the key.
base::StatusOr<ClusterSettings> ParseClusterSettings(const base::Json& cluster);

// INVALID_ARGUMENT: `name` is no name of an image (block/backend.h): lower-case letters, digits,
// '-' and '.', at most 253 bytes, beginning with a letter or digit.
base::Status CheckImageName(std::string_view name);

// INVALID_ARGUMENT: `node` is no name of a node: it is empty, longer than 253 bytes, or has other
// characters than a Kubernetes name.
base::Status CheckNodeName(std::string_view node);

}  // namespace berth::rbd
