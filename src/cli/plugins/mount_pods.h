// The mount pods of a node, as the API tells of them: what an upgrade has to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"

namespace berth::cli {

inline constexpr char kMountPodLabel[] = "berth.dev/component";  // deploy/mount-pod
inline constexpr char kMountPodValue[] = "mount-pod";
inline constexpr char kUpgradeTaint[] = "berth.dev/mount-pod-upgrade";

// NoExecute: who does not tolerate it goes, and nobody new comes.
base::Json UpgradeTaint();

// What an upgrade knows of the API.
struct MountPodWorld {
  std::vector<api::DaemonSet> sets;  // those to upgrade
  std::vector<api::ControllerRevision> revisions;
  std::vector<api::Pod> pods;  // all on the node
};

// What is on the node, sorted by what becomes of it.
struct MountPodState {
  // Pods of the sets.
  std::vector<api::Pod> old;         // of an earlier template
  std::vector<api::Pod> leaving;     // deleted, and still there for their mounts
  std::vector<api::Pod> fresh;       // of the newest
  std::vector<std::string> without;  // sets that have no fresh pod that is ready, "NS/NAME"
  // Others that have volumes of a node's kind and have not ended.
  std::vector<api::Pod> evicted;     // they do not tolerate the taint
  std::vector<api::Pod> tolerating;  // they do: they stay

  // Nothing is left to be done but to take the taint off.
  bool upgraded() const { return old.empty() && leaving.empty() && without.empty(); }
};

// The hash of the newest revision of a set; "" while there is none for its present template.
std::string NewestHash(const api::DaemonSet& set,
                       const std::vector<api::ControllerRevision>& revisions);

MountPodState StateOf(const MountPodWorld& world);

// "a/x, b/y"; nothing for none.
std::string NamesOf(const std::vector<api::Pod>& pods);

}  // namespace berth::cli
