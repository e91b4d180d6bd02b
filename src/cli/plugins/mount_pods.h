// The mount pods of a node as the API shows them, and what an upgrade still has to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"

namespace berth::cli {

inline constexpr char kMountPodLabel[] = "berth.dev/component";  // deploy/mount-pod
inline constexpr char kMountPodValue[] = "mount-pod";
inline constexpr char kUpgradeTaint[] = "berth.dev/mount-pod-upgrade";

// Its effect is NoExecute: pods that do not tolerate it are evicted, and no new ones come.
base::Json UpgradeTaint();

// What an upgrade knows of the API.
struct MountPodWorld {
  std::vector<api::DaemonSet> sets;  // those to upgrade
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
  std::vector<api::Pod> tolerating;  // they do and stay, and have volumes that the node mounts

  // True if only the taint is left to be taken off.
  bool upgraded() const { return old.empty() && leaving.empty() && without.empty(); }
};

// The hash of the newest revision of a set; "" while there is none for its present template.
std::string NewestHash(const api::DaemonSet& set,
                       const std::vector<api::ControllerRevision>& revisions);

MountPodState StateOf(const MountPodWorld& world);

// "a/x, b/y"; empty if there are no pods.
std::string NamesOf(const std::vector<api::Pod>& pods);

}  // namespace berth::cli
