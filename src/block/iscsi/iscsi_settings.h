// The settings of an iSCSI back end, as a StorageCluster has them, and the CHAP secret.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::block {

// What becomes of a LUN whose volume is deleted: it is overwritten with zeroes and free again, or
// it stays reserved with its data until the target's administrator frees it.
enum class LunReclaim { kWipe, kKeep };

struct IscsiSettings {
  std::vector<std::string> portals;  // "HOST:PORT"
  std::string target;                // its iSCSI name
  std::string initiator;             // empty: made of the node's name
  std::vector<std::string> allowed;  // identities of the LUNs that Berth may use
  LunReclaim reclaim = LunReclaim::kWipe;
  std::string secret_namespace;
  std::string secret_name;  // empty: without CHAP

  // Distinguishes the images of different targets.
  std::string Store() const { return "iscsi:" + target; }
};

// Reads StorageCluster.spec.backend.iscsi. INVALID_ARGUMENT names the member that is wrong.
// UNIMPLEMENTED: it asks for the kernel's initiator.
base::StatusOr<IscsiSettings> ReadIscsiSettings(const base::Json& settings);

struct ChapSecret {
  std::string user;  // empty: without CHAP
  std::string password;
};

// The user and the password among the values of a Secret: `node.session.auth.username` and
// `.password`, as Kubernetes has them in Secrets of type kubernetes.io/iscsi-chap, or else
// `username` and `password`. FAILED_PRECONDITION says what the Secret, which `secret` names for
// people, lacks; the message has no value.
base::StatusOr<ChapSecret> FindChapSecret(const std::map<std::string, std::string>& values,
                                          std::string_view secret);

}  // namespace berth::block
