// `berth upgrade mount-pod`: replaces the mount pods of one node. It empties the node first,
// because then no pod can lose a mount:
//
//   taint (NoExecute) ─▶ pods that do not tolerate it are gone, and with them their mounts
//                     ─▶ old mount pods deleted ─▶ new ones ready ─▶ taint off
//
// Each step reads the present state and does what is still missing, so that a person can repeat a
// command that was interrupted. Use a rolling update with surge instead if it may take as long as
// pods use their mounts (docs/mount-pods.md).
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

struct UpgradeMountPodOptions {
  std::string node;
  std::string daemon_set;  // "NS/NAME"; "": all sets of mount pods that have a pod on the node
  bool dry_run = false;    // only says what it would do
  std::chrono::seconds timeout{600};  // of the whole
};

// Prints each step. NOT_FOUND: there is no such node or set. INVALID_ARGUMENT: options.daemon_set
// has another form. FAILED_PRECONDITION: a set does not tolerate the taint. DEADLINE_EXCEEDED: the
// node stays tainted, and the message says what the upgrade waited for. CANCELLED: `stop` was
// requested.
base::Status UpgradeMountPod(kube::Client& client, const UpgradeMountPodOptions& options,
                             std::stop_token stop);

}  // namespace berth::cli
