// `berth upgrade mount-pod`: replaces the mount pods of one node. It empties the node first,
// because then no pod can lose a mount:
//
//   taint (NoExecute) ─▶ pods that do not tolerate it are gone, and with them their mounts
//                     ─▶ old mount pods deleted ─▶ new ones ready ─▶ taint off
//
// Each step looks at the present state and does what is still missing, so that an interrupted
// command can simply be given again. None of this is needed where a rolling update with surge may
// take as long as it needs (docs/mount-pods.md).
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

struct UpgradeMountPodOptions {
  std::string node;
  std::string daemon_set;  // "NS/NAME"; "": all mount pods' sets that have a pod on the node
  bool dry_run = false;    // only says what it would do
  std::chrono::seconds timeout{600};  // of the whole
};

// NOT_FOUND: no such node or set. FAILED_PRECONDITION: a set does not tolerate the taint.
// DEADLINE_EXCEEDED: the node stays tainted, and the message says what was waited for.
base::Status UpgradeMountPod(kube::Client& client, const UpgradeMountPodOptions& options,
                             std::stop_token stop);

}  // namespace berth::cli
