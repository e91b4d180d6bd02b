// Small records in a pool: the keys and values of RADOS objects. One operation is atomic and
// durable when it returns.
//
// NOT_FOUND is returned only by SetInExisting, ABORTED only by ReplaceOmap. Other failures are
// RbdError's; after DEADLINE_EXCEEDED of a change it is not known whether the change was made.
// Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

using OmapValues = std::map<std::string, std::string>;

// More keys than this in one object are refused with RESOURCE_EXHAUSTED, because they would not fit
// into one answer of berth-rbd.
inline constexpr size_t kMostKeys = 200000;

// The value of `key`; nullopt: there is none, or no such object.
base::StatusOr<std::optional<std::string>> ReadOmap(const Cluster& cluster,
                                                    const std::string& object,
                                                    const std::string& key);
// All keys that begin with `prefix`; none if there is no such object.
base::StatusOr<OmapValues> ListOmap(const Cluster& cluster, const std::string& object,
                                    const std::string& prefix = "");
// Sets `key`, and makes the object if there is none.
base::Status SetOmap(const Cluster& cluster, const std::string& object, const std::string& key,
                     const std::string& value);
// NOT_FOUND: there is no such object.
base::Status SetInExisting(const Cluster& cluster, const std::string& object,
                           const std::string& key, const std::string& value);
// What ReplaceOmap changes, and under which condition.
struct OmapReplacement {
  std::string key;
  std::string before;  // its value now; "": it has none
  OmapValues set;
  std::vector<std::string> remove;
};
// Makes the change if `key` has the value `before`, and makes the object if there is none. ABORTED:
// the key has another value, and nothing is changed.
base::Status ReplaceOmap(const Cluster& cluster, const std::string& object,
                         const OmapReplacement& change);
// Removes keys; OK also if there are none of them, or no such object.
base::Status RemoveOmap(const Cluster& cluster, const std::string& object,
                        const std::vector<std::string>& keys);

}  // namespace berth::rbd
