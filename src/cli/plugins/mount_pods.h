// Finds out from the API's objects what an upgrade of a node's mount pods still has to do. The
// functions are pure.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"

namespace berth::cli {

inline constexpr char kMountPodLabel[] = "berth.dev/component";  // deploy/mount-pod
inline constexpr char kMountPodValue[] = "mount-pod";
inline constexpr char kUpgradeTaint[] = "berth.dev/mount-pod-upgrade";

// Makes the taint of an upgrade. Its effect is NoExecute: pods that do not tolerate it are evicted,
// and no new pods are scheduled to the node.
base::Json MakeUpgradeTaint();

// The objects of the API that SortMountPods needs.
struct MountPodObjects {
  std::vector<api::DaemonSet> sets;  // the DaemonSets to upgrade
  std::vector<api::ControllerRevision> revisions;
  std::vector<api::Pod> pods;  // all on the node
};

// The pods of the node, sorted by what the upgrade does with them.
struct MountPodState {
  // Pods of the sets.
  std::vector<api::Pod> old;         // of an earlier template
  std::vector<api::Pod> leaving;     // deleted, but they stay while their mounts are in use
  std::vector<api::Pod> fresh;       // of the newest template
  std::vector<std::string> without;  // sets that have no fresh pod that is ready, "NS/NAME"
  // Other pods that have not ended.
  std::vector<api::Pod> evicted;     // they do not tolerate the taint
  std::vector<api::Pod> tolerating;  // they tolerate it, and have volumes that the node mounts

  // True if nothing is left to do except the removal of the taint.
  bool upgraded() const { return old.empty() && leaving.empty() && without.empty(); }
};

// Returns the hash of the newest revision of a set; "" if the controller has not made a revision of
// the present template yet.
std::string FindNewestHash(const api::DaemonSet& set,
                           const std::vector<api::ControllerRevision>& revisions);

MountPodState SortMountPods(const MountPodObjects& objects);

// "a/x, b/y"; empty if there are no pods.
std::string JoinPodNames(const std::vector<api::Pod>& pods);

}  // namespace berth::cli
