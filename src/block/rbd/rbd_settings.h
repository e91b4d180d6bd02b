// The settings of an RBD back end, as a StorageCluster has them, and the key of its Secret.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::block {

// kAuto is kProxy, because the kernel's client neither grows an image that it uses nor lets others
// make a snapshot of it.
enum class RbdAccess { kAuto, kKernel, kProxy };

struct RbdSettings {
  std::vector<std::string> monitors;  // "HOST:PORT"
  std::string pool;
  std::string ns;    // the namespace in the pool; empty: the default one
  std::string user;  // without "client."
  std::string secret_namespace;
  std::string secret_name;
  RbdAccess access = RbdAccess::kAuto;

  // Distinguishes the images of different pools. The order of the monitors does not count.
  std::string Store() const;
};

// Reads StorageCluster.spec.backend.rbd. INVALID_ARGUMENT names the member that is wrong.
base::StatusOr<RbdSettings> ReadRbdSettings(const base::Json& settings);

// The key among the values of a Secret: `key`, or else `userKey`, as `ceph auth get-key` prints it.
// FAILED_PRECONDITION says what the Secret, which `secret` names for people, lacks; the message has
// nothing of the value.
base::StatusOr<std::string> FindCephKey(const std::map<std::string, std::string>& values,
                                        std::string_view secret);

}  // namespace berth::block
