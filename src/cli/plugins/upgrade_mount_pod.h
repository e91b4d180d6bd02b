// `berth upgrade mount-pod`: replaces the mount pods of one node the way that is sure to lose
// nothing, by emptying the node first:
//
//   taint (NoExecute) ─▶ pods that do not tolerate it are gone, and with them their mounts
//                     ─▶ old mount pods deleted ─▶ new ones ready ─▶ taint off
//
// Each step looks at what is and does what lacks, so that after an interruption the command is
// simply given again. Where a rolling update with surge may take its time, none of this is needed
// (docs/mount-pods.md).
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
