#include "cli/plugins/mount_pods.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "api/kinds/taints.h"

namespace berth::cli {
namespace {

constexpr char kRevisionHash[] = "controller-revision-hash";

bool Controls(const api::DaemonSet& set, const api::Object& object) {
  const auto owner = object.controller();
  return owner.has_value() && owner->uid == set.uid();
}

// Whether the pod is the mirror of a static pod, which cannot be evicted.
bool IsMirror(const api::Pod& pod) {
  return !pod.annotation("kubernetes.io/config.mirror").empty();
}

// Whether the pod has volumes that a mount utility may have mounted. No utility is needed for
// objects of the API, empty folders, folders of the host and images.
bool HasMounts(const api::Pod& pod) {
  static constexpr std::string_view kNone[] = {"configMap", "secret",   "projected", "downwardAPI",
                                               "emptyDir",  "hostPath", "image",     ""};
  const std::vector<api::PodVolume> volumes = pod.volumes();
  return std::any_of(volumes.begin(), volumes.end(), [](const api::PodVolume& volume) {
    return std::find(std::begin(kNone), std::end(kNone), volume.source_type()) == std::end(kNone);
  });
}

}  // namespace

base::Json MakeUpgradeTaint() { return api::MakeTaint(kUpgradeTaint, "", "NoExecute"); }

std::string FindNewestHash(const api::DaemonSet& set,
                           const std::vector<api::ControllerRevision>& revisions) {
  // The template's revision does not exist until the controller has seen the template.
  if (set.Int({"status", "observedGeneration"}) < set.generation()) return "";
  const api::ControllerRevision* newest = nullptr;
  for (const api::ControllerRevision& one : revisions) {
    if (!Controls(set, one)) continue;
    if (newest == nullptr || one.revision() > newest->revision()) newest = &one;
  }
  return newest == nullptr ? "" : newest->label(kRevisionHash);
}

MountPodState SortMountPods(const MountPodObjects& objects) {
  MountPodState state;
  std::vector<const api::DaemonSet*> served;
  for (const api::Pod& pod : objects.pods) {
    const auto set = std::find_if(objects.sets.begin(), objects.sets.end(),
                                  [&](const api::DaemonSet& one) { return Controls(one, pod); });
    if (set == objects.sets.end()) {
      if (pod.terminated() || IsMirror(pod)) continue;
      if (!api::AnyTolerates(pod.tolerations(), MakeUpgradeTaint())) {
        state.evicted.push_back(pod);
      } else if (HasMounts(pod)) {
        state.tolerating.push_back(pod);
      }
    } else if (pod.deleting()) {
      state.leaving.push_back(pod);
    } else if (const std::string hash = FindNewestHash(*set, objects.revisions);
               !hash.empty() && pod.label(kRevisionHash) != hash) {
      state.old.push_back(pod);
    } else {
      state.fresh.push_back(pod);
      if (pod.ready() && !hash.empty()) served.push_back(&*set);
    }
  }
  for (const api::DaemonSet& set : objects.sets) {
    if (std::find(served.begin(), served.end(), &set) == served.end()) {
      state.without.push_back(set.key());
    }
  }
  return state;
}

std::string JoinPodNames(const std::vector<api::Pod>& pods) {
  std::vector<std::string> names;
  names.reserve(pods.size());
  for (const api::Pod& pod : pods) names.push_back(pod.key());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace berth::cli
